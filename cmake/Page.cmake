# The server library carries the page of web/ and the program's version.
function(fulmar_embed_page target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    return()
  endif()
  set(web ${PROJECT_SOURCE_DIR}/web)
  set(script ${PROJECT_SOURCE_DIR}/cmake/EmbedPage.cmake)
  set(page ${PROJECT_BINARY_DIR}/page_files.cpp)
  add_custom_command(OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -DWEB=${web} -DOUT=${page} -P ${script}
    DEPENDS ${web}/index.html ${web}/app.js ${web}/style.css ${script}
    COMMENT "Embedding web/")
  target_sources(${target} PRIVATE ${page})
  target_compile_definitions(${target} PUBLIC FULMAR_VERSION="${PROJECT_VERSION}")
endfunction()
