# Writes the commit of a working tree as a C++ constant, "-dirty" where tracked files differ from it:
#   cmake -DSOURCE=<tree> -DOUT=<header> -P WriteCommit.cmake
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define FULMAR_COMMIT \"${commit}\"\n")
