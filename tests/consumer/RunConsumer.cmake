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
# A ccache with a base_dir keeps objects by paths that are relative to the build folder: it has none of these.
set(cached ${LAUNCHER})
if(LAUNCHER MATCHES "ccache")
  execute_process(COMMAND ${LAUNCHER} --get-config base_dir OUTPUT_VARIABLE base OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(base)
    set(cached "")
  endif()
endif()
if(MODE STREQUAL "subdirectory" AND NOT cached)
  # Without a compiler cache the library would be compiled again, for minutes. The consumer's own files
  # show whether target, headers and options reach it.
  run(${CMAKE_COMMAND} --build ${WORK}/build --target consumer_cpp_object consumer_c_object)
  return()
endif()
run(${CMAKE_COMMAND} --build ${WORK}/build --target consumer_cpp consumer_c)
run(${WORK}/build/consumer_cpp)
run(${WORK}/build/consumer_c)
if(MODE STREQUAL "package")
  # Without a standard of its own, g++ 12 compiles C++17: one sentence says what is missing.
  execute_process(
    COMMAND ${CXX_COMPILER} -std=c++17 -fsyntax-only -I${WORK}/prefix/include
            -include catenary/catenary.hpp -x c++ /dev/null
    ERROR_VARIABLE said RESULT_VARIABLE result)
  string(REGEX MATCHALL "error:" errors "${said}")
  list(LENGTH errors count)
  if(result EQUAL 0 OR NOT said MATCHES "need C\\+\\+20" OR NOT count EQUAL 1)
    message(FATAL_ERROR "C++17 is not refused by one sentence: ${said}")
  endif()
  find_program(PKG_CONFIG pkg-config)
  file(GLOB_RECURSE pc ${WORK}/prefix/catenary.pc)
  if(PKG_CONFIG AND pc)
    get_filename_component(pc_folder ${pc} DIRECTORY)
    set(ENV{PKG_CONFIG_PATH} ${pc_folder})
    foreach(language IN ITEMS cpp c)
      set(package catenary)
      set(compiler ${CXX_COMPILER})
      if(language STREQUAL c)
        set(package catenary-c)
        set(compiler ${C_COMPILER} -Werror)
      endif()
      execute_process(COMMAND ${PKG_CONFIG} --cflags --libs ${package} OUTPUT_VARIABLE flags
                      OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
      separate_arguments(flags UNIX_COMMAND "${flags}")
      run(${compiler} ${CMAKE_CURRENT_LIST_DIR}/consumer.${language} -o ${WORK}/pc_${language}
          ${flags})
      file(GLOB library ${WORK}/prefix/lib*/libcatenary.so ${WORK}/prefix/lib/*/libcatenary.so)
      get_filename_component(library_folder "${library}" DIRECTORY)
      set(ENV{LD_LIBRARY_PATH} ${library_folder})
      run(${WORK}/pc_${language})
    endforeach()
  endif()
  # A project in C only.
  file(WRITE ${WORK}/c/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(c_only LANGUAGES C)
find_package(catenary 0.1 REQUIRED CONFIG)
add_executable(c_only ${CMAKE_CURRENT_LIST_DIR}/consumer.c)
target_link_libraries(c_only PRIVATE catenary::catenary)
")
  run(${CMAKE_COMMAND} -S ${WORK}/c -B ${WORK}/c/build -G ${GENERATOR}
      -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_PREFIX_PATH=${WORK}/prefix)
  run(${CMAKE_COMMAND} --build ${WORK}/c/build)
  run(${WORK}/c/build/c_only)
endif()
# A program with a pack inside. CATENARY_COMMAND: the command of BUILD, where it has one; its simulator needs a
# compiler.
if(MODE STREQUAL "package" AND CATENARY_COMMAND)
  run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/embedded -B ${WORK}/embedded ${arguments}
      -DCATENARY_EXECUTABLE=${CATENARY_COMMAND})
  run(${CMAKE_COMMAND} --build ${WORK}/embedded)
  run(${CMAKE_COMMAND} -E env --unset=PATH --unset=HOME CATENARY_DEVICE=sim ${WORK}/embedded/embedded)
endif()
