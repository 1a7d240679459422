# LLVM Support (static), fmt (header-only), threads, dl. Everything is linked into our own library
# and hidden: a host process may hold another LLVM or fmt.
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

# LLVM Support asks for terminfo and zlib; their static forms keep the library self-contained.
find_library(CATENARY_TINFO NAMES libtinfo.a tinfo REQUIRED)
find_library(CATENARY_ZLIB NAMES libz.a z REQUIRED)

add_library(catenary_dependencies INTERFACE)
target_include_directories(catenary_dependencies SYSTEM INTERFACE ${llvm_include})
target_link_libraries(catenary_dependencies INTERFACE fmt::fmt-header-only ${llvm_libs}
                      ${CATENARY_TINFO} ${CATENARY_ZLIB} Threads::Threads ${CMAKE_DL_LIBS})
