# The bundled demo model: its accuracy floor with our own engine, and its answers over HTTP. Label "demo".
function(fulmar_demo_tests)
  add_test(NAME demo.suite COMMAND $<TARGET_FILE:fulmar> eval --quiet --suite demo --floor 98
    --model ${PROJECT_SOURCE_DIR}/models/fulmar-demo.safetensors)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME demo.http COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/demo/demo_http.py $<TARGET_FILE:fulmar>)
  set_tests_properties(demo.suite demo.http PROPERTIES LABELS demo TIMEOUT 300)
endfunction()
