# Writes files of web/ as C++ constants:
#   cmake -DWEB=<folder> -DHEADER=<declares them> -DFILES=<NAME=file,...> -DOUT=<file.cpp> -P EmbedPage.cmake
set(text "// Generated from web/ by cmake/EmbedPage.cmake.\n#include \"${HEADER}\"\n\nnamespace fulmar {\n\n")
string(REPLACE "," ";" FILES "${FILES}")
foreach(pair ${FILES})
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 name)
  list(GET pair 1 file)
  file(READ ${WEB}/${file} content)
  string(APPEND text "const std::string_view ${name} = R\"page(${content})page\";\n\n")
endforeach()
string(APPEND text "}  // namespace fulmar\n")
file(WRITE ${OUT} "${text}")
