# catenary-nvrtc, the program in which NVRTC runs for the library. Part of the library: an embedder gets it
# without the tools. Its folder in the build tree is beside those of commands and tests.
set(catenary_libexec ${CMAKE_INSTALL_LIBEXECDIR}/catenary)
file(RELATIVE_PATH catenary_libexec_from_library /prefix/${CMAKE_INSTALL_LIBDIR}
     /prefix/${catenary_libexec})
file(RELATIVE_PATH catenary_libexec_from_command /prefix/${CMAKE_INSTALL_BINDIR}
     /prefix/${catenary_libexec})
set_source_files_properties(${PROJECT_SOURCE_DIR}/compiler/compile/helper/options.cpp PROPERTIES
  COMPILE_DEFINITIONS "CATENARY_LIBEXEC_FROM_LIBRARY=\"${catenary_libexec_from_library}\";\
CATENARY_LIBEXEC_FROM_COMMAND=\"${catenary_libexec_from_command}\"")

function(catenary_helper_program target)
  add_executable(${target} ${PROJECT_SOURCE_DIR}/compiler/compile/helper/main.cpp)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME catenary-nvrtc)
  target_link_libraries(${target} PRIVATE catenary_compiler)
  target_link_options(${target} PRIVATE -Wl,--gc-sections -Wl,--as-needed)
endfunction()

catenary_helper_program(catenary_nvrtc)
set_target_properties(catenary_nvrtc PROPERTIES
                      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/libexec/catenary)
foreach(component IN ITEMS library catenary)
  install(TARGETS catenary_nvrtc RUNTIME DESTINATION ${catenary_libexec} COMPONENT ${component})
endforeach()
