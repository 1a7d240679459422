# Comments, messages, test titles and documents keep to plain technical English.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME prose_test COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/prose.py)
  set_tests_properties(prose_test PROPERTIES LABELS unit)
endif()

# Doxygen has no warning about the public headers.
if(Python3_FOUND)
  add_test(NAME doxygen_test
           COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/docs/doxygen/check.py)
  set_tests_properties(doxygen_test PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
endif()
