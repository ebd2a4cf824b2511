# The files of web/dist become part of src/net/: an assembler file includes their bytes as they are, a table names them.
# Text is carried a second time, compressed, for clients that take gzip. web/dist is committed, so that building the
# program needs neither Node.js nor npm; the test web.dist says when it is not what web/build.mjs makes of web/.
enable_language(ASM)
function(fulmar_embed_pages folder)
  set(dist ${PROJECT_SOURCE_DIR}/web/dist)
  set(script ${PROJECT_SOURCE_DIR}/cmake/EmbedPages.cmake)
  set(out ${PROJECT_BINARY_DIR}/pages)
  file(GLOB files CONFIGURE_DEPENDS ${dist}/*)
  add_custom_command(OUTPUT ${out}/pages.S ${out}/page_table.cpp
    COMMAND ${CMAKE_COMMAND} -DDIST=${dist} -DOUT=${out} -P ${script}
    DEPENDS ${files} ${script}
    COMMENT "Embedding web/dist into fulmar_${folder}")
  target_sources(fulmar_${folder} PRIVATE ${out}/pages.S ${out}/page_table.cpp)
endfunction()
