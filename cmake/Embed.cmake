# Embeds every device header of `folder` into `target` as two generated tables, what GPUs are given
# and the simulator's host shims in sim/: names relative to `folder` and texts, each table with a digest
# of its own (part of every kernel's key). Adding a template edits no list.
function(catenary_embed target folder)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${folder}/*.cuh ${folder}/*.h ${folder}/*.def)
  list(SORT headers)
  set(shims ${headers})
  list(FILTER headers EXCLUDE REGEX "/sim/")
  list(FILTER shims INCLUDE REGEX "/sim/")
  catenary_embed_table(${target} ${folder} templates "${headers}")
  catenary_embed_table(${target} ${folder} shims "${shims}")
endfunction()

# The functions embedded_<table>() and <table>_digest() of compiler/compile/templates.h.
function(catenary_embed_table target folder table headers)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/generated/embedded_${table}.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUTPUT=${output} -DTABLE=${table}
            "-DHEADERS=${headers}" -P ${PROJECT_SOURCE_DIR}/cmake/EmbedFiles.cmake
    DEPENDS ${headers} ${PROJECT_SOURCE_DIR}/cmake/EmbedFiles.cmake
    COMMENT "Embedding device ${table}" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
