# `docs`: the API reference of the public headers in <build>/docs/html, where doxygen is installed.
find_program(CATENARY_DOXYGEN doxygen)
if(CATENARY_DOXYGEN)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/docs)
  file(READ ${PROJECT_SOURCE_DIR}/docs/doxygen/Doxyfile doxyfile)
  string(APPEND doxyfile "PROJECT_NUMBER = ${PROJECT_VERSION}\n"
                         "OUTPUT_DIRECTORY = \"${PROJECT_BINARY_DIR}/docs\"\n")
  file(WRITE ${PROJECT_BINARY_DIR}/docs/Doxyfile "${doxyfile}")
  add_custom_target(docs COMMAND ${CATENARY_DOXYGEN} ${PROJECT_BINARY_DIR}/docs/Doxyfile
                    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
endif()
