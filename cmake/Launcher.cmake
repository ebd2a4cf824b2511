# fulmar_compiler_launcher(root): compilers run through ccache where it is installed. It hashes paths relative to the source
# tree, so that every clone and worktree finds what another one compiled.
macro(fulmar_compiler_launcher root)
  find_program(CCACHE_PROGRAM ccache)
  set(FULMAR_COMPILER_LAUNCHER)
  if(CCACHE_PROGRAM)
    set(FULMAR_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${root} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${FULMAR_COMPILER_LAUNCHER})
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${FULMAR_COMPILER_LAUNCHER})
  endif()
endmacro()
