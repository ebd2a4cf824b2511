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
  if(NOT TARGET fulmar)
    return()
  endif()
  set(model ${PROJECT_SOURCE_DIR}/models/fulmar-demo.safetensors)
  add_test(NAME control.seed_commands COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/control/seed_commands_test.py
    $<TARGET_FILE:fulmar> ${model})
  add_test(NAME control.operations COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/control/operations_test.py
    $<TARGET_FILE:fulmar> ${model} ${PROJECT_SOURCE_DIR}/docs/operations.md)
  set_tests_properties(control.seed_commands control.operations PROPERTIES LABELS control SKIP_RETURN_CODE 77 TIMEOUT 120)
  add_test(NAME fleet.sessions COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/fleet/fleet_test.py
    $<TARGET_FILE:fulmar> ${model} ${PROJECT_SOURCE_DIR}/deploy/haproxy.cfg)
  add_test(NAME fleet.slurm COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/fleet/slurm_test.py
    $<TARGET_FILE:fulmar> ${model} ${PROJECT_SOURCE_DIR}/deploy/fulmar.slurm)
  add_test(NAME fleet.container COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/fleet/container_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/deploy/Containerfile)
  add_test(NAME fleet.systemd COMMAND ${FULMAR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/fleet/systemd_test.py
    $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/deploy)
  set_tests_properties(fleet.sessions fleet.slurm fleet.container fleet.systemd PROPERTIES LABELS fleet SKIP_RETURN_CODE 77 TIMEOUT 240)
  if(FULMAR_NODE)
    add_test(NAME fleet.kubernetes COMMAND ${FULMAR_NODE} ${PROJECT_SOURCE_DIR}/tests/fleet/kubernetes_test.mjs
      $<TARGET_FILE:fulmar> ${PROJECT_SOURCE_DIR}/deploy/kubernetes/fulmar.yaml ${PROJECT_SOURCE_DIR}/docs/operations.md)
    set_tests_properties(fleet.kubernetes PROPERTIES LABELS fleet SKIP_RETURN_CODE 77)
  endif()
endfunction()
