# libFuzzer programs fuzz_<target>, where the compiler is clang and the whole build is instrumented:
#   cmake -B build-fuzz -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++
#         -DCATENARY_SANITIZE=address,undefined,fuzzer-no-link
# The seeded mutators of *_fuzz_test.cpp need no clang. Clang 14 and 16 over libstdc++ 12 cannot compile
# LLVM 14's JSON.h as C++20: std::vector of an incomplete type.
if(CATENARY_SANITIZE MATCHES "fuzzer-no-link")
  foreach(target IN ITEMS text npy cache_entry tuning_record c_api)
    add_executable(fuzz_${target} fuzz/libfuzzer.cpp)
    target_compile_definitions(fuzz_${target} PRIVATE CATENARY_FUZZ_TARGET=${target})
    target_link_libraries(fuzz_${target} PRIVATE catenary_runtime)
    target_link_options(fuzz_${target} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()
