# The programs and the library of the Python wheel, linked a second time from the same objects: libstdc++
# is inside, so that they need no newer system than glibc 2.34 (manylinux_2_34; `auditwheel` checks it),
# and no symbolic link, which a wheel cannot hold. libgcc stays shared: a static one needs glibc 2.35.
# Built on demand: `ninja wheel`, or by scikit-build-core (pyproject.toml).
set(catenary_wheel_folder ${PROJECT_BINARY_DIR}/wheel)

catenary_shared_library(catenary_wheel_library)
set_target_properties(catenary_wheel_library PROPERTIES OUTPUT_NAME catenary
                      LIBRARY_OUTPUT_DIRECTORY ${catenary_wheel_folder}/lib)

catenary_helper_program(catenary_wheel_nvrtc)
set_target_properties(catenary_wheel_nvrtc PROPERTIES
                      RUNTIME_OUTPUT_DIRECTORY ${catenary_wheel_folder}/libexec/catenary)

set(catenary_wheel catenary_wheel_library catenary_wheel_nvrtc)
if(CATENARY_BUILD_TOOLS)
  catenary_command_program(catenary_wheel_command)
  set_target_properties(catenary_wheel_command PROPERTIES
                        RUNTIME_OUTPUT_DIRECTORY ${catenary_wheel_folder}/bin)
  list(APPEND catenary_wheel catenary_wheel_command)
endif()

set_target_properties(${catenary_wheel} PROPERTIES EXCLUDE_FROM_ALL ON)
foreach(part IN LISTS catenary_wheel)
  target_link_options(${part} PRIVATE -static-libstdc++ -s)
endforeach()
add_custom_target(wheel DEPENDS ${catenary_wheel})

include(cmake/WheelInstall.cmake)
