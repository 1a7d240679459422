# catenary_embed_pack(<target> <name> CHAINS <file>... [ARCH <arch>...] [SIMULATOR])
# catenary_embed_pack(<target> <name> PACK <file>)
#
# Links a pack into <target>: ctn_pack_<name> and ctn_pack_<name>_end, declared in <name>_pack.h. With
# CHAINS the pack is built from chain files for the architectures, with SIMULATOR also for the
# simulator; that needs NVRTC, or a C++ compiler, where it is built. The `catenary` command is the one of
# this build, or found by CATENARY_EXECUTABLE.
function(catenary_embed_pack target name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "SIMULATOR" "PACK" "CHAINS;ARCH")
  if(arg_UNPARSED_ARGUMENTS OR (NOT arg_PACK AND NOT arg_CHAINS) OR (arg_PACK AND arg_CHAINS))
    message(FATAL_ERROR "catenary_embed_pack: give CHAINS <file>... or PACK <file>")
  endif()
  if(TARGET catenary_command)
    set(command $<TARGET_FILE:catenary_command>)
    set(command_target catenary_command)
  else()
    find_program(CATENARY_EXECUTABLE catenary HINTS ${CATENARY_BIN_DIR}
                 DOC "the command `catenary`, which builds packs")
    if(NOT CATENARY_EXECUTABLE)
      message(FATAL_ERROR "catenary_embed_pack: the command `catenary` is not found: install its "
                          "component, or set CATENARY_EXECUTABLE")
    endif()
    set(command ${CATENARY_EXECUTABLE})
    set(command_target "")
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/catenary_pack_${target})
  file(MAKE_DIRECTORY ${folder})
  if(arg_PACK)
    get_filename_component(pack ${arg_PACK} ABSOLUTE)
  else()
    set(chains "")
    foreach(chain IN LISTS arg_CHAINS)
      get_filename_component(chain ${chain} ABSOLUTE)
      list(APPEND chains ${chain})
    endforeach()
    # The simulator's machine code is a pack of its own until they are merged.
    set(parts "")
    set(build_parts "")
    if(arg_ARCH)
      list(JOIN arg_ARCH "," archs)
      list(APPEND parts ${folder}/${name}.gpu.ctnpack)
      list(APPEND build_parts COMMAND ${command} pack build --quiet
           -o ${folder}/${name}.gpu.ctnpack --arch ${archs} ${chains})
    endif()
    if(arg_SIMULATOR)
      list(APPEND parts ${folder}/${name}.sim.ctnpack)
      list(APPEND build_parts COMMAND ${command} pack build --quiet
           -o ${folder}/${name}.sim.ctnpack --simulator ${chains})
    endif()
    if(NOT parts)
      message(FATAL_ERROR "catenary_embed_pack: give ARCH <arch>..., SIMULATOR, or both")
    endif()
    set(pack ${folder}/${name}.ctnpack)
    add_custom_command(OUTPUT ${pack} ${build_parts}
      COMMAND ${command} pack merge --quiet -o ${pack} ${parts}
      DEPENDS ${chains} ${command_target} COMMENT "Building the pack ${name}" VERBATIM)
  endif()
  add_custom_command(OUTPUT ${folder}/${name}_pack.o ${folder}/${name}_pack.h
    COMMAND ${command} pack object ${pack} --name ${name} -o ${folder}/${name}_pack.o
            --header ${folder}/${name}_pack.h --quiet
    DEPENDS ${pack} ${command_target} COMMENT "The pack ${name} as an object" VERBATIM)
  set_source_files_properties(${folder}/${name}_pack.o PROPERTIES EXTERNAL_OBJECT TRUE
                              GENERATED TRUE)
  target_sources(${target} PRIVATE ${folder}/${name}_pack.o ${folder}/${name}_pack.h)
  target_include_directories(${target} PRIVATE ${folder})
endfunction()
