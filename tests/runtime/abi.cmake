# Tests of binary contracts: a C program, a consumer project by find_package and by add_subdirectory,
# and the driver's types against cuda.h where that is found.
find_path(CATENARY_CUDA_INCLUDE cuda.h HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
          PATH_SUFFIXES include)
if(CATENARY_CUDA_INCLUDE)
  target_include_directories(driver_test SYSTEM PRIVATE ${CATENARY_CUDA_INCLUDE})
  target_compile_definitions(driver_test PRIVATE CATENARY_CUDA_HEADER)
endif()

add_executable(c_abi_test runtime/c_abi_test.c)
set_target_properties(c_abi_test PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_compile_options(c_abi_test PRIVATE -Wall -Wextra -Wpedantic -Werror)
target_link_libraries(c_abi_test PRIVATE catenary)
if(CATENARY_SANITIZE)
  target_link_options(c_abi_test PRIVATE -fsanitize=${CATENARY_SANITIZE})
endif()
add_test(NAME c_abi_test COMMAND c_abi_test)
set_tests_properties(c_abi_test PROPERTIES LABELS unit)

# A sanitized library would need a sanitized consumer, which is not what users build.
if(NOT CATENARY_SANITIZE)
  set(command "")
  if(TARGET catenary_command)
    set(command $<TARGET_FILE:catenary_command>)
  endif()
  foreach(mode IN ITEMS package subdirectory)
    add_test(NAME consumer_${mode}
             COMMAND ${CMAKE_COMMAND} -DMODE=${mode} -DSOURCE=${PROJECT_SOURCE_DIR}
                     -DBUILD=${PROJECT_BINARY_DIR} -DWORK=${PROJECT_BINARY_DIR}/consumer/${mode}
                     -DGENERATOR=${CMAKE_GENERATOR} -DCONFIG=${CMAKE_BUILD_TYPE}
                     -DC_COMPILER=${CMAKE_C_COMPILER} -DCXX_COMPILER=${CMAKE_CXX_COMPILER}
                     -DLAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER} -DCATENARY_COMMAND=${command}
                     -P ${CMAKE_CURRENT_SOURCE_DIR}/consumer/RunConsumer.cmake)
    set_tests_properties(consumer_${mode} PROPERTIES LABELS unit)
  endforeach()
endif()
