# The bundled demo model: its accuracy floor with our own engine, questions as people
# who are new here word them, and its answers over HTTP. Label "demo".
function(fulmar_demo_tests)
  add_test(NAME demo.suite COMMAND $<TARGET_FILE:fulmar> eval --quiet --suite demo --floor 98
    --model ${PROJECT_SOURCE_DIR}/models/fulmar-demo.safetensors)
  add_test(NAME demo.newcomer COMMAND $<TARGET_FILE:fulmar> eval --quiet --floor 94
    --suite ${PROJECT_SOURCE_DIR}/tests/demo/newcomer.jsonl --model ${PROJECT_SOURCE_DIR}/models/fulmar-demo.safetensors)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME demo.http COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/demo/demo_http.py $<TARGET_FILE:fulmar>)
  add_test(NAME demo.speculation COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/demo/demo_speculation.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  add_test(NAME demo.structured COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/demo/demo_structured.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  set_tests_properties(demo.suite demo.newcomer demo.http demo.speculation demo.structured PROPERTIES LABELS demo TIMEOUT 300)
endfunction()
