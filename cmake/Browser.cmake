# The embedded pages in a real browser, label "browser"; skipped where node, its packages or chromium are missing.
# Screenshots stay in <build>/browser.
find_program(FULMAR_NODE node)
function(fulmar_browser_tests)
  if(NOT FULMAR_NODE OR NOT TARGET fulmar)
    message(STATUS "No node: the browser tests are left out")
    return()
  endif()
  add_test(NAME browser.dashboard COMMAND ${FULMAR_NODE} ${PROJECT_SOURCE_DIR}/tests/browser/dashboard_test.mjs
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models ${PROJECT_BINARY_DIR}/browser)
  set_tests_properties(browser.dashboard PROPERTIES LABELS browser SKIP_RETURN_CODE 77 TIMEOUT 240)
endfunction()
