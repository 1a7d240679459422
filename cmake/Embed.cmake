# Embeds every device header of `folder` into `target` as one generated table: repo-relative name
# and text, plus a digest of all of them (part of every kernel's key). Adding a template edits no list.
function(catenary_embed target folder)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${folder}/*.cuh ${folder}/*.h ${folder}/*.def)
  list(FILTER headers EXCLUDE REGEX "/sim/")
  list(SORT headers)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/generated/embedded_templates.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUTPUT=${output} "-DHEADERS=${headers}"
            -P ${PROJECT_SOURCE_DIR}/cmake/EmbedFiles.cmake
    DEPENDS ${headers} ${PROJECT_SOURCE_DIR}/cmake/EmbedFiles.cmake
    COMMENT "Embedding device templates" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
