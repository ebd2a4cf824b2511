# Clients against the built program: the contract's conformance cases (label "server") and the openai package of npm
# (label "clients", skipped where node or its packages are missing).
function(fulmar_client_tests)
  if(NOT TARGET fulmar)
    return()
  endif()
  find_program(FULMAR_PYTHON python3)
  if(FULMAR_PYTHON)
    add_test(NAME server.conformance COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/server/conformance.py
      $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
    set_tests_properties(server.conformance PROPERTIES LABELS server TIMEOUT 600)
    add_test(NAME server.flags COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/server/start_flags.py
      $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
    set_tests_properties(server.flags PROPERTIES LABELS server TIMEOUT 300)
    add_test(NAME server.running COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/server/running.py
      $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
    set_tests_properties(server.running PROPERTIES LABELS server TIMEOUT 300)
    add_test(NAME server.documents COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tools/check_docs.py $<TARGET_FILE:fulmar>)
    set_tests_properties(server.documents PROPERTIES LABELS server TIMEOUT 300)
  endif()
  add_test(NAME clients.openai COMMAND ${PROJECT_SOURCE_DIR}/tests/clients/run.sh $<TARGET_FILE:fulmar>)
  set_tests_properties(clients.openai PROPERTIES LABELS clients SKIP_RETURN_CODE 77 TIMEOUT 300)
endfunction()
