# What most files of a target include, parsed once. Without a compiler cache only: a cache has the objects
# themselves, and cannot keep those of a precompiled header. A build with a cache shows a missing include.
function(catenary_precompile target)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    target_precompile_headers(${target} ${ARGN})
  endif()
endfunction()
