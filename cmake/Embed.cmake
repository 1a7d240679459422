# Embeds the device headers of `folder` into `target` as two generated tables: the headers for GPUs, and
# the host shims of the simulator in sim/. A row is a name relative to `folder` and a text. Each table
# has a digest, which is part of every kernel's key. New templates need no entry in a list.
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
