# libFuzzer programs fuzz_<target>, where the compiler is clang and the whole build is instrumented, as
# in tests/fuzz/README.md. The seeded mutators of *_fuzz_test.cpp need no clang.
if(CATENARY_SANITIZE MATCHES "fuzzer-no-link")
  foreach(target IN ITEMS text npy cache_entry tuning_record pack pack_entry
                         trace_line c_api)
    add_executable(fuzz_${target} fuzz/libfuzzer.cpp)
    target_compile_definitions(fuzz_${target} PRIVATE CATENARY_FUZZ_TARGET=${target})
    target_link_libraries(fuzz_${target} PRIVATE catenary_runtime)
    target_link_options(fuzz_${target} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()
