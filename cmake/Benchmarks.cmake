# bench/<name>_bench.cpp become programs fulmar_<name>_bench, where Google Benchmark is installed. They are not
# built by default: ask for them by name.
find_package(benchmark QUIET)
if(benchmark_FOUND)
  file(GLOB benchmark_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*_bench.cpp)
  foreach(source ${benchmark_sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(fulmar_${name} EXCLUDE_FROM_ALL ${source})
    target_include_directories(fulmar_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(fulmar_${name} PRIVATE fulmar_flags fulmar_cpu benchmark::benchmark)
  endforeach()
endif()
