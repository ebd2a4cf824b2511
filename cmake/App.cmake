# The program itself, from outside: tests/app/*.py start it.
find_program(FULMAR_PYTHON python3)
function(fulmar_app_tests)
  if(NOT FULMAR_PYTHON OR NOT TARGET fulmar)
    return()
  endif()
  add_test(NAME app.admin COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/app/admin_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models)
  set_tests_properties(app.admin PROPERTIES LABELS app TIMEOUT 240)
endfunction()
