# The files of the Python package from catenary_wheel_folder, where `ninja wheel` has linked them. With
# CATENARY_WHEEL_FROM, the folder wheel/ of a build folder, this is all that pip needs: nothing is compiled twice.
# The helper is found from bin/ and lib/ as in an installed tree.
foreach(part IN ITEMS bin lib libexec)
  install(DIRECTORY ${catenary_wheel_folder}/${part} DESTINATION . COMPONENT wheel
          USE_SOURCE_PERMISSIONS EXCLUDE_FROM_ALL)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include DESTINATION . COMPONENT wheel EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
