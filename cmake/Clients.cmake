# Clients against the built program: the contract's conformance cases (label "server") and packages of npm, a test each
# (label "clients", skipped where node or a client's packages are missing).
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
    add_test(NAME server.strangers COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/server/strangers.py
      $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
    set_tests_properties(server.strangers PROPERTIES LABELS server TIMEOUT 300)
    add_test(NAME server.documents COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tools/check_docs.py $<TARGET_FILE:fulmar>)
    set_tests_properties(server.documents PROPERTIES LABELS server TIMEOUT 300)
  endif()
  foreach(client openai openapi structured anthropic ollama ai-sdk langchain agents llamaindex codex)
    add_test(NAME clients.${client} COMMAND ${PROJECT_SOURCE_DIR}/tests/clients/run.sh $<TARGET_FILE:fulmar> ${client})
    set_tests_properties(clients.${client} PROPERTIES LABELS clients SKIP_RETURN_CODE 77 TIMEOUT 300)
  endforeach()
  set_tests_properties(clients.codex PROPERTIES TIMEOUT 900)
endfunction()

# Documents drawn under schemas, judged by a validator of npm (label "grammar", skipped where its packages are missing).
function(fulmar_schema_tests)
  add_executable(fulmar_draw_documents ${PROJECT_SOURCE_DIR}/tests/grammar/draw_documents.cpp)
  target_link_libraries(fulmar_draw_documents PRIVATE fulmar_flags fulmar_grammar)
  add_test(NAME grammar.documents COMMAND ${PROJECT_SOURCE_DIR}/tests/clients/schemas.sh $<TARGET_FILE:fulmar_draw_documents>)
  add_test(NAME grammar.suite COMMAND ${PROJECT_SOURCE_DIR}/tests/clients/schema_suite.sh $<TARGET_FILE:fulmar_draw_documents>)
  set_tests_properties(grammar.documents grammar.suite PROPERTIES LABELS grammar SKIP_RETURN_CODE 77 TIMEOUT 300)
endfunction()
