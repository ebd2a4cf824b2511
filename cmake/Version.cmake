# What `fulmar --version` says besides the number: the commit, looked up at each build and written only when it changes,
# and the GPUs that the kernels were compiled for.
function(fulmar_version_facts target)
  set(header ${PROJECT_BINARY_DIR}/version/build_commit.h)
  add_custom_target(fulmar_commit BYPRODUCTS ${header}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUT=${header} -P ${PROJECT_SOURCE_DIR}/cmake/WriteCommit.cmake
    COMMENT "")
  add_dependencies(${target} fulmar_commit)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/version)
  set(gpus "none")
  if(FULMAR_GPU_TARGETS)
    set(gpus ${FULMAR_GPU_TARGETS})
  endif()
  target_compile_definitions(${target} PRIVATE FULMAR_GPU_TARGETS="${gpus}")
  # The number is of one file alone, so that raising it compiles one file again.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/base/version.cpp PROPERTIES
    COMPILE_DEFINITIONS FULMAR_VERSION="${PROJECT_VERSION}")
endfunction()
