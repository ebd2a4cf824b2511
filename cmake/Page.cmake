# fulmar_embed_page(folder header NAME=file...): the library of src/<folder>/ carries these files of web/ as the
# constants that <folder>/<header> declares, and knows the program's version.
function(fulmar_embed_page folder header)
  set(target fulmar_${folder})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    return()
  endif()
  set(web ${PROJECT_SOURCE_DIR}/web)
  set(script ${PROJECT_SOURCE_DIR}/cmake/EmbedPage.cmake)
  set(page ${PROJECT_BINARY_DIR}/${folder}_page.cpp)
  set(sources "")
  foreach(pair ${ARGN})
    string(REGEX REPLACE "^.*=" "${web}/" source ${pair})
    list(APPEND sources ${source})
  endforeach()
  list(JOIN ARGN "," files)
  add_custom_command(OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -DWEB=${web} -DHEADER=${folder}/${header} -DFILES=${files} -DOUT=${page} -P ${script}
    DEPENDS ${sources} ${script}
    COMMENT "Embedding web/ into ${target}")
  target_sources(${target} PRIVATE ${page})
  target_compile_definitions(${target} PUBLIC FULMAR_VERSION="${PROJECT_VERSION}")
endfunction()
