# Configures, builds and runs the consumer project in WORK. MODE package: against the library of
# BUILD, installed to a prefix; MODE subdirectory: with the source tree SOURCE added to it.
cmake_policy(VERSION 3.25)
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(arguments -G ${GENERATOR} -DCMAKE_BUILD_TYPE=${CONFIG} -DCMAKE_C_COMPILER=${C_COMPILER}
    -DCMAKE_CXX_COMPILER=${CXX_COMPILER})
if(LAUNCHER)
  list(APPEND arguments -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
endif()
if(MODE STREQUAL "package")
  file(REMOVE_RECURSE ${WORK}/prefix)
  run(${CMAKE_COMMAND} --install ${BUILD} --component library --prefix ${WORK}/prefix)
  list(APPEND arguments -DCMAKE_PREFIX_PATH=${WORK}/prefix)
else()
  # The warning flags of the project's build, so that a compiler cache has every object.
  list(APPEND arguments -DCATENARY_SOURCE_DIR=${SOURCE} -DCATENARY_WERROR=ON)
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/build ${arguments})
if(MODE STREQUAL "subdirectory" AND NOT LAUNCHER)
  # Without a compiler cache the library would be compiled again, for minutes. The consumer's own files
  # show whether target, headers and options reach it.
  run(${CMAKE_COMMAND} --build ${WORK}/build --target consumer_cpp_object consumer_c_object)
  return()
endif()
run(${CMAKE_COMMAND} --build ${WORK}/build --target consumer_cpp consumer_c)
run(${WORK}/build/consumer_cpp)
run(${WORK}/build/consumer_c)
