# The embedded pages: their pure parts by Node.js alone, all of them in a real browser (label "browser"), and whether
# web/dist is what its sources make (label "web"), and the site of the documents (label "docs"). Skipped where node, its packages or chromium are missing. Screenshots
# stay in <build>/browser.
find_program(FULMAR_NODE node)
function(fulmar_browser_tests)
  if(NOT FULMAR_NODE OR NOT TARGET fulmar)
    message(STATUS "No node: the browser tests are left out")
    return()
  endif()
  set(folder ${PROJECT_SOURCE_DIR}/tests/browser)
  set(surroundings $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models ${PROJECT_BINARY_DIR}/browser)
  add_test(NAME browser.pure COMMAND ${FULMAR_NODE} --test ${folder}/pure_test.mjs ${folder}/markdown_bounds_test.mjs)
  add_test(NAME browser.chat COMMAND ${FULMAR_NODE} ${folder}/chat_test.mjs ${surroundings})
  add_test(NAME browser.dashboard COMMAND ${FULMAR_NODE} ${folder}/dashboard_test.mjs ${surroundings})
  add_test(NAME browser.stream_speed COMMAND ${FULMAR_NODE} ${folder}/stream_speed_test.mjs)
  set_tests_properties(browser.pure browser.chat browser.dashboard browser.stream_speed PROPERTIES
    LABELS browser SKIP_RETURN_CODE 77 TIMEOUT 900)
  set_tests_properties(browser.stream_speed PROPERTIES RUN_SERIAL ON)
  add_test(NAME docs.site COMMAND ${FULMAR_NODE} --test ${PROJECT_SOURCE_DIR}/tests/docs/site_test.mjs)
  set_tests_properties(docs.site PROPERTIES LABELS docs TIMEOUT 120)
  add_test(NAME web.dist COMMAND ${FULMAR_NODE} ${PROJECT_SOURCE_DIR}/web/build.mjs --check)
  set_tests_properties(web.dist PROPERTIES LABELS web SKIP_RETURN_CODE 77 TIMEOUT 120)
endfunction()
