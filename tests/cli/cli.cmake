# Tests of the command run the built one, which exists only with the tools.
foreach(name IN ITEMS cli_test cli_inputs_test cli_numbers_test cli_cache_test cli_json_test cli_output_test
                      cli_pack_test cli_usage_test cli_completion_test cli_helper_test
                      command_fault_test kill_stress_test)
  if(TARGET catenary_command)
    add_dependencies(${name} catenary_command)
    target_compile_definitions(${name} PRIVATE CATENARY_COMMAND="$<TARGET_FILE:catenary_command>")
  else()
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    set_tests_properties(${name} PROPERTIES DISABLED ON)
  endif()
endforeach()
# Runs the examples without a compiler. A sanitized library needs sanitized programs.
if(TARGET examples AND NOT CATENARY_SANITIZE)
  add_dependencies(cli_pack_test examples)
  target_compile_definitions(cli_pack_test PRIVATE
                             CATENARY_EXAMPLE_PREFIX="${PROJECT_BINARY_DIR}/examples/example_")
endif()
# Parts of the command, without the command.
foreach(name IN ITEMS elf_object_test progress_test)
  if(TARGET catenary_tools)
    target_link_libraries(${name} PRIVATE catenary_tools)
  else()
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    set_tests_properties(${name} PROPERTIES DISABLED ON)
  endif()
endforeach()
