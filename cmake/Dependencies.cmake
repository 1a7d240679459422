# LLVM Support (static), fmt, threads, dl. All are linked into the library and hidden: the process may
# have another LLVM or fmt.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

find_program(CATENARY_LLVM_CONFIG NAMES llvm-config-14 llvm-config
             DOC "llvm-config of LLVM 14 or newer (package llvm-14-dev)")
if(NOT CATENARY_LLVM_CONFIG)
  message(FATAL_ERROR "llvm-config-14 not found: install llvm-14-dev, or set CATENARY_LLVM_CONFIG")
endif()
execute_process(COMMAND ${CATENARY_LLVM_CONFIG} --includedir
                OUTPUT_VARIABLE llvm_include OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CATENARY_LLVM_CONFIG} --link-static --libfiles support
                OUTPUT_VARIABLE llvm_libs OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(llvm_libs)

# LLVM Support needs terminfo and zlib; the static ones keep the library self-contained.
find_library(CATENARY_TINFO NAMES libtinfo.a tinfo REQUIRED)
find_library(CATENARY_ZLIB NAMES libz.a z REQUIRED)

# Packages of fmt are shared or header-only. For version 9 (Debian 12) the implementation is compiled
# once, here; for other versions in every source file that uses it.
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  add_library(catenary_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt_library.cpp)
  target_compile_features(catenary_fmt PUBLIC cxx_std_20)
  target_include_directories(catenary_fmt SYSTEM PUBLIC
                             $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
  set_target_properties(catenary_fmt PROPERTIES POSITION_INDEPENDENT_CODE ON
                        CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  set(formatting catenary_fmt)
else()
  set(formatting fmt::fmt-header-only)
endif()

add_library(catenary_dependencies INTERFACE)
target_include_directories(catenary_dependencies SYSTEM INTERFACE ${llvm_include})
target_link_libraries(catenary_dependencies INTERFACE ${formatting} ${llvm_libs}
                      ${CATENARY_TINFO} ${CATENARY_ZLIB} Threads::Threads ${CMAKE_DL_LIBS})
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(catenary_dependencies INTERFACE
                         $<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${CMAKE_CURRENT_LIST_DIR}/clang.h>)
endif()
