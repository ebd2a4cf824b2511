# The program itself, from outside: tests/app/ starts it.
find_program(FULMAR_PYTHON python3)
function(fulmar_app_tests)
  if(NOT FULMAR_PYTHON OR NOT TARGET fulmar)
    return()
  endif()
  add_test(NAME app.admin COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/serve/admin_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  set_tests_properties(app.admin PROPERTIES LABELS app TIMEOUT 240)
  add_test(NAME app.install COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/install_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  set_tests_properties(app.install PROPERTIES LABELS app TIMEOUT 120)
  if(CMAKE_GENERATOR STREQUAL "Ninja" AND EXISTS /usr/bin/dpkg-query)
    add_test(NAME app.parts COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/parts_test.py
      $<TARGET_FILE:fulmar> ${PROJECT_BINARY_DIR})
    set_tests_properties(app.parts PROPERTIES LABELS app TIMEOUT 120)
  endif()
  add_test(NAME app.sessions COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/serve/sessions_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  set_tests_properties(app.sessions PROPERTIES LABELS app TIMEOUT 240)
  add_test(NAME app.numbers COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/numbers_test.py
    $<TARGET_FILE:fulmar>)
  set_tests_properties(app.numbers PROPERTIES LABELS app TIMEOUT 400)
  add_test(NAME app.files COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/files_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  set_tests_properties(app.files PROPERTIES LABELS app TIMEOUT 900)
  add_test(NAME app.refusals COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/refusals_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  set_tests_properties(app.refusals PROPERTIES LABELS app TIMEOUT 240)
  add_test(NAME app.output COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/output_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  set_tests_properties(app.output PROPERTIES LABELS app TIMEOUT 240)
  add_test(NAME app.bench_options COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/bench/bench_options_test.py
    $<TARGET_FILE:fulmar>)
  set_tests_properties(app.bench_options PROPERTIES LABELS app TIMEOUT 120)
  add_test(NAME app.owners COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/serve/owners_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  set_tests_properties(app.owners PROPERTIES LABELS app TIMEOUT 240)
  add_test(NAME app.pull COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/models/pull_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  set_tests_properties(app.pull PROPERTIES LABELS app TIMEOUT 120)
  add_test(NAME app.load COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/bench/load_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models/fulmar-demo.safetensors)
  set_tests_properties(app.load PROPERTIES LABELS app TIMEOUT 240)
  add_test(NAME app.schemas COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/eval/schemas_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  set_tests_properties(app.schemas PROPERTIES LABELS app TIMEOUT 900)
  add_test(NAME app.quantize COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/convert/quantize_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  set_tests_properties(app.quantize PROPERTIES LABELS app TIMEOUT 400)
  add_test(NAME app.adapters COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/convert/adapters_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/../shared)
  set_tests_properties(app.adapters PROPERTIES LABELS app TIMEOUT 400)
  add_test(NAME app.tune COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/tune/tune_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  set_tests_properties(app.tune PROPERTIES LABELS app TIMEOUT 400)
  # Sanitizers bring a heap of theirs, which keeps what was freed.
  if(NOT FULMAR_SANITIZE)
    add_test(NAME app.memory COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/serve/memory_test.py
      $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models/fulmar-demo.safetensors)
    set_tests_properties(app.memory PROPERTIES LABELS app TIMEOUT 240)
  endif()
  add_test(NAME app.pipeline COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/serve/pipeline_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  set_tests_properties(app.pipeline PROPERTIES LABELS app TIMEOUT 240)
  # Short forms; the scripts' --help says how to run them in full.
  set(model ${PROJECT_SOURCE_DIR}/models/fulmar-demo.safetensors)
  add_test(NAME soak.crash COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/soak/crash_test.py
    $<TARGET_FILE:fulmar> ${model} --sessions 40 --device 4 --host 8 --kills 5 --most 4 --slack 5)
  add_test(NAME soak.streams COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/soak/streams_test.py
    $<TARGET_FILE:fulmar> ${model} --streams 60 --seconds 10 --warm-up 5)
  add_test(NAME soak.prefix COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/soak/prefix_test.py
    $<TARGET_FILE:fulmar> ${model} --chats 60 --requests 40 --mixture 24)
  # Every kind of end once and more.
  add_test(NAME soak.ends COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/soak/ends_test.py
    $<TARGET_FILE:fulmar> ${model} --ends 14 --slack 2)
  # Every kind of step once.
  add_test(NAME soak.chaos COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/soak/chaos.py
    --program $<TARGET_FILE:fulmar> --model ${model} --steps 1-10 --clients 6 --patience 60)
  set_tests_properties(soak.crash soak.ends soak.streams soak.prefix soak.chaos PROPERTIES LABELS soak TIMEOUT 300)
endfunction()
