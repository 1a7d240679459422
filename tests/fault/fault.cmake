# What the tests of faults load: an NVRTC that crashes, hangs or eats memory when a source asks for it,
# and a library that fails the n-th call of one kind in a program.
foreach(name IN ITEMS fake_nvrtc failing_calls)
  add_library(${name} MODULE fault/${name}.c)
  set_target_properties(${name} PROPERTIES PREFIX "" C_STANDARD 11)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Werror)
endforeach()
target_link_libraries(failing_calls PRIVATE ${CMAKE_DL_LIBS})
foreach(name IN ITEMS helper_test cli_helper_test command_fault_test kill_stress_test)
  add_dependencies(${name} fake_nvrtc failing_calls catenary_nvrtc)
  target_compile_definitions(${name} PRIVATE FAKE_NVRTC="$<TARGET_FILE:fake_nvrtc>"
                             FAILING_CALLS="$<TARGET_FILE:failing_calls>"
                             CATENARY_HELPER_PROGRAM="$<TARGET_FILE:catenary_nvrtc>")
endforeach()
