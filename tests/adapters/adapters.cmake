# A library with torch's C shim, which the process opens before the operators are registered.
add_library(fake_torch SHARED adapters/fake_torch.cpp)
target_include_directories(fake_torch PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_features(fake_torch PRIVATE cxx_std_20)
foreach(name IN ITEMS program_test torch_form_test torch_operators_test tvm_ffi_test xla_call_test)
  target_link_libraries(${name} PRIVATE catenary_adapters)
endforeach()
# The process has the function of TVM's runtime that errors are set by.
set_target_properties(tvm_ffi_test PROPERTIES ENABLE_EXPORTS ON)
target_compile_definitions(torch_operators_test PRIVATE
  CATENARY_FAKE_TORCH="$<TARGET_FILE:fake_torch>")
add_dependencies(torch_operators_test fake_torch)
