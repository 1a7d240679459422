# cli_test runs the built command, which exists only with the tools.
if(TARGET catenary_command)
  add_dependencies(cli_test catenary_command)
  target_compile_definitions(cli_test PRIVATE CATENARY_COMMAND="$<TARGET_FILE:catenary_command>")
else()
  set_target_properties(cli_test PROPERTIES EXCLUDE_FROM_ALL ON)
  set_tests_properties(cli_test PROPERTIES DISABLED ON)
endif()
