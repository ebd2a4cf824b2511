# The checks of the sources have tests of their own (label "tools").
function(fulmar_tool_tests)
  find_program(FULMAR_PYTHON python3)
  if(NOT FULMAR_PYTHON)
    return()
  endif()
  add_test(NAME tools.check_names COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/tools/check_names_test.py)
  set_tests_properties(tools.check_names PROPERTIES LABELS tools TIMEOUT 60)
endfunction()
