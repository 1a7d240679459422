# libcatenary.so exports only the C ABI. Install rules, CMake package, pkg-config.
set_source_files_properties(${PROJECT_SOURCE_DIR}/runtime/c_api/c_api.cpp
                            ${PROJECT_SOURCE_DIR}/runtime/pack/pack_writer.cpp PROPERTIES
                            COMPILE_DEFINITIONS CATENARY_VERSION="${PROJECT_VERSION}")

# The library of every layer up to adapters. runtime/ and adapters/ are linked as objects, because
# --exclude-libs would hide the C ABI of an archive.
function(catenary_shared_library target)
  set(map ${PROJECT_SOURCE_DIR}/cmake/catenary.map)
  add_library(${target} SHARED $<TARGET_OBJECTS:catenary_runtime>
                               $<TARGET_OBJECTS:catenary_adapters>)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS ${map})
  target_link_libraries(${target} PRIVATE catenary_compiler catenary_simulator catenary_flags)
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL -Wl,--version-script,${map}
                      -Wl,--gc-sections -Wl,--as-needed)
  if(NOT CATENARY_SANITIZE)  # a sanitizer's runtime stays undefined until the program is linked
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
endfunction()

catenary_shared_library(catenary)
add_library(catenary::catenary ALIAS catenary)
set_target_properties(catenary PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
add_dependencies(catenary catenary_nvrtc)
target_compile_features(catenary INTERFACE cxx_std_20)  # catenary.hpp
target_sources(catenary PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES
               ${PROJECT_SOURCE_DIR}/include/catenary/catenary.h
               ${PROJECT_SOURCE_DIR}/include/catenary/catenary.hpp
               ${PROJECT_SOURCE_DIR}/include/catenary/chain.hpp
               ${PROJECT_SOURCE_DIR}/include/catenary/device.hpp
               ${PROJECT_SOURCE_DIR}/include/catenary/dlpack.hpp
               ${PROJECT_SOURCE_DIR}/include/catenary/error.hpp
               ${PROJECT_SOURCE_DIR}/include/catenary/facts.h
               ${PROJECT_SOURCE_DIR}/include/catenary/facts.hpp
               ${PROJECT_SOURCE_DIR}/include/catenary/gradient.h
               ${PROJECT_SOURCE_DIR}/include/catenary/gradient.hpp
               ${PROJECT_SOURCE_DIR}/include/catenary/groups.h
               ${PROJECT_SOURCE_DIR}/include/catenary/log.hpp
               ${PROJECT_SOURCE_DIR}/include/catenary/pack.h
               ${PROJECT_SOURCE_DIR}/include/catenary/pack.hpp
               ${PROJECT_SOURCE_DIR}/include/catenary/repack.h
               ${PROJECT_SOURCE_DIR}/include/catenary/repack.hpp
               ${PROJECT_SOURCE_DIR}/include/catenary/torch.h)

set(catenary_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/catenary)
install(TARGETS catenary EXPORT catenaryTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(EXPORT catenaryTargets NAMESPACE catenary:: DESTINATION ${catenary_package_dir}
        COMPONENT library)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/catenaryConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/catenaryConfig.cmake INSTALL_DESTINATION ${catenary_package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/catenaryConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/catenaryConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/catenaryConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/CatenaryPack.cmake
        DESTINATION ${catenary_package_dir} COMPONENT library)
# The prefix is relative to the .pc file, so that an installed tree can be moved.
file(RELATIVE_PATH catenary_pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
# catenary for C++20, catenary-c for the C ABI only.
foreach(package IN ITEMS catenary catenary-c)
  if(package STREQUAL catenary)
    set(catenary_pc_language " -std=c++20")
  else()
    set(catenary_pc_language "")
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/catenary.pc.in
                 ${CMAKE_CURRENT_BINARY_DIR}/${package}.pc @ONLY)
endforeach()
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/catenary.pc ${CMAKE_CURRENT_BINARY_DIR}/catenary-c.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
