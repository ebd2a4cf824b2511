# Real clients against the built program, label "clients"; skipped where node or its packages are missing.
function(fulmar_client_tests)
  if(NOT TARGET fulmar)
    return()
  endif()
  add_test(NAME clients.openai COMMAND ${PROJECT_SOURCE_DIR}/tests/clients/run.sh $<TARGET_FILE:fulmar>)
  set_tests_properties(clients.openai PROPERTIES LABELS clients SKIP_RETURN_CODE 77 TIMEOUT 300)
endfunction()
