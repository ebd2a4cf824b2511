# The GPU backend for AMD's cards: the same sources, device code by hipcc. Host code is compiled as everywhere else.
find_program(FULMAR_HIPCC hipcc HINTS /opt/rocm/bin $ENV{ROCM_PATH}/bin)
if(NOT FULMAR_HIPCC)
  message(FATAL_ERROR "FULMAR_HIP is ON, but there is no hipcc; wanted ROCm 5.2 or later (Debian: hipcc, libamdhip64-dev)")
endif()
get_filename_component(rocm ${FULMAR_HIPCC} DIRECTORY)
get_filename_component(rocm ${rocm} DIRECTORY)
find_path(FULMAR_HIP_INCLUDE hip/hip_runtime.h HINTS ${rocm}/include REQUIRED)
find_library(FULMAR_HIP_RUNTIME amdhip64 HINTS ${rocm}/lib REQUIRED)

add_library(fulmar_hip_runtime INTERFACE)
target_include_directories(fulmar_hip_runtime SYSTEM INTERFACE ${FULMAR_HIP_INCLUDE})
target_compile_definitions(fulmar_hip_runtime INTERFACE FULMAR_HIP __HIP_PLATFORM_AMD__)
target_link_libraries(fulmar_hip_runtime INTERFACE ${FULMAR_HIP_RUNTIME})
set(FULMAR_GPU_RUNTIME fulmar_hip_runtime)
list(JOIN FULMAR_HIP_ARCHS ", " FULMAR_GPU_TARGETS)
message(STATUS "HIP targets: ${FULMAR_GPU_TARGETS}")

# Every .cu of the target becomes an object by hipcc. Notes that are no faults of ours: parameters of instructions that
# the target lacks, indices of blocks that are unsigned here alone, loops that the optimiser leaves rolled.
function(fulmar_compile_hip target)
  get_target_property(sources ${target} SOURCES)
  set(flags -x hip -std=c++20 -O3 -fPIC -DFULMAR_HIP -I${PROJECT_SOURCE_DIR}/src
    -Wall -Wextra -Wshadow -Wno-missing-field-initializers -Wno-unused-parameter -Wno-sign-compare -Wno-pass-failed)
  if(FULMAR_WERROR)
    list(APPEND flags -Werror)
  endif()
  foreach(architecture ${FULMAR_HIP_ARCHS})
    list(APPEND flags --offload-arch=${architecture})
  endforeach()
  set(objects)
  foreach(source ${sources})
    if(NOT source MATCHES "\\.cu$")
      continue()
    endif()
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${source})
    string(REPLACE "/" "_" name ${name})
    set(object ${PROJECT_BINARY_DIR}/hip/${name}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/hip
      COMMAND ${CMAKE_COMMAND} -E env CCACHE_COMPILERTYPE=clang ${FULMAR_COMPILER_LAUNCHER} ${FULMAR_HIPCC} ${flags} -MD -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d COMMENT "Building HIP object ${name}.o" VERBATIM)
    set_source_files_properties(${source} PROPERTIES HEADER_FILE_ONLY ON)
    list(APPEND objects ${object})
  endforeach()
  target_sources(${target} PRIVATE ${objects})
endfunction()
