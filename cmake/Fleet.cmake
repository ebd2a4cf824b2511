# What stands around the workers, with the real programs, label "fleet"; skipped where those are not installed.
find_program(FULMAR_PYTHON python3)
function(fulmar_fleet_tests)
  if(NOT FULMAR_PYTHON)
    message(STATUS "No python3: the fleet tests are left out")
    return()
  endif()
  add_test(NAME fleet.haproxy COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/fleet/haproxy_test.py
    $<TARGET_FILE:fulmar_fake_worker> ${PROJECT_SOURCE_DIR}/deploy/haproxy.cfg)
  set_tests_properties(fleet.haproxy PROPERTIES LABELS fleet SKIP_RETURN_CODE 77 TIMEOUT 120)
  # On demand, since it still finds something under load: a session that changes its worker can meet a turn that is on its
  # way to Redis (1 of 200 seen). Commits must wait for a shared store first.
  if(TARGET fulmar AND FULMAR_FLEET_OUTAGES)
    add_test(NAME fleet.sessions COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/fleet/fleet_test.py
      $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/models/fulmar-demo.safetensors ${PROJECT_SOURCE_DIR}/deploy/haproxy.cfg)
    set_tests_properties(fleet.sessions PROPERTIES LABELS fleet SKIP_RETURN_CODE 77 TIMEOUT 300)
  endif()
endfunction()
