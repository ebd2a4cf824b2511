# fulmar_room(folder/room USES folder/rooms...): src/<folder>/<room>/ becomes part of the library of src/<folder>/,
# which is declared behind its rooms. What a room may include: tools/check_layers.py reads it here.
function(fulmar_room path)
  get_filename_component(folder ${path} DIRECTORY)
  set_property(GLOBAL APPEND PROPERTY FULMAR_ROOMS_${folder} ${path})
endfunction()

# fulmar_folder(name USES folders... LINKS targets...): the library of src/<name>/, all its sources and its rooms'.
function(fulmar_folder name)
  cmake_parse_arguments(ARG "" "" "USES;LINKS" ${ARGN})
  get_property(places GLOBAL PROPERTY FULMAR_ROOMS_${name})
  list(PREPEND places ${name})
  list(TRANSFORM places PREPEND ${PROJECT_SOURCE_DIR}/src/)
  set(patterns)
  foreach(place ${places})
    list(APPEND patterns ${place}/*.cpp ${place}/*.cu)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  list(TRANSFORM ARG_USES PREPEND fulmar_)
  if(sources)
    add_library(fulmar_${name} STATIC ${sources})
    target_include_directories(fulmar_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(fulmar_${name} PUBLIC ${ARG_USES} ${ARG_LINKS} PRIVATE fulmar_flags)
  else()
    add_library(fulmar_${name} INTERFACE)
    target_include_directories(fulmar_${name} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(fulmar_${name} INTERFACE ${ARG_USES} ${ARG_LINKS})
  endif()
endfunction()

# fulmar_gpu_vendor(name): src/gpu/<room>/<name>/ of all rooms, what only one vendor's cards have, becomes part of the
# library of src/gpu/.
function(fulmar_gpu_vendor name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/gpu/*/${name}/*.cpp
    ${PROJECT_SOURCE_DIR}/src/gpu/*/${name}/*.cu)
  target_sources(fulmar_gpu PRIVATE ${sources})
endfunction()

# fulmar_gpu_part(name architecture): src/gpu/<room>/<name>/ of all rooms, which only that architecture can run,
# becomes part of the library of src/gpu/ whatever the other kernels are compiled for.
function(fulmar_gpu_part name architecture)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/gpu/*/${name}/*.cpp
    ${PROJECT_SOURCE_DIR}/src/gpu/*/${name}/*.cu)
  add_library(fulmar_gpu_${name} OBJECT ${sources})
  set_target_properties(fulmar_gpu_${name} PROPERTIES CUDA_ARCHITECTURES ${architecture})
  target_include_directories(fulmar_gpu_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(fulmar_gpu_${name} PRIVATE fulmar_ops CUDA::cudart_static fulmar_flags)
  target_compile_options(fulmar_gpu_${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda;--expt-relaxed-constexpr>)
  target_sources(fulmar_gpu PRIVATE $<TARGET_OBJECTS:fulmar_gpu_${name}>)
  set_property(GLOBAL APPEND PROPERTY FULMAR_GPU_PARTS ${name})
endfunction()

# The folders a test or the program may link: everything.
set(FULMAR_ALL_FOLDERS base tensor files text ops cpu cases ranks model cache draft engine net load grammar hub server control)

function(fulmar_all_libraries out)
  set(libraries ${FULMAR_ALL_FOLDERS})
  if(FULMAR_GPU_TARGETS)
    list(APPEND libraries gpu)
  else()
    list(APPEND libraries gpu_absent)
  endif()
  list(TRANSFORM libraries PREPEND fulmar_)
  set(${out} ${libraries} PARENT_SCOPE)
endfunction()

# The program: src/<folder>/, as a library that its tests link, too, and main.cpp.
function(fulmar_program name folder)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
  list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/src/${folder}/main.cpp)
  fulmar_all_libraries(libraries)
  add_library(fulmar_${folder} STATIC ${sources})
  target_include_directories(fulmar_${folder} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(fulmar_${folder} PUBLIC ${libraries} CLI11::CLI11 PRIVATE fulmar_flags)
  add_executable(${name} ${PROJECT_SOURCE_DIR}/src/${folder}/main.cpp)
  target_link_libraries(${name} PRIVATE fulmar_${folder} fulmar_flags)
endfunction()

# Folders whose tests run a model.
set(FULMAR_TESTED_ON_CPU ops cpu gpu ranks model cache engine server)

# tests/<folder>/*_test.cpp become one executable fulmar_<folder>_test, labelled with the folder's name.
function(fulmar_tests)
  file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true ${PROJECT_SOURCE_DIR}/tests/*)
  fulmar_all_libraries(all)
  # What several test programs share: an archive, so that each takes only the parts that its folders suffice for.
  file(GLOB helpers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.cpp)
  add_library(fulmar_test_support STATIC ${helpers})
  target_include_directories(fulmar_test_support PUBLIC ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(fulmar_test_support PUBLIC fulmar_cases PRIVATE fulmar_flags fulmar_base GTest::gtest)
  # Of one file alone: a path of this clone in every command would keep ccache from what other clones compiled.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/support/folders.cpp PROPERTIES COMPILE_DEFINITIONS
    "FULMAR_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\";FULMAR_BINARY_DIR=\"${PROJECT_BINARY_DIR}\"")
  foreach(path ${folders})
    get_filename_component(folder ${path} NAME)
    file(GLOB sources CONFIGURE_DEPENDS ${path}/*_test.cpp)
    if(folder STREQUAL "gpu")  # its parts' tests are built where the parts are
      get_property(parts GLOBAL PROPERTY FULMAR_GPU_PARTS)
      if(FULMAR_CUDA_FOUND)  # tests that include CUDA's headers
        list(APPEND parts vendor)
      endif()
      foreach(part ${parts})
        file(GLOB part_sources CONFIGURE_DEPENDS ${path}/${part}/*_test.cpp ${path}/${part}/*_test.cu)
        list(APPEND sources ${part_sources})
      endforeach()
    endif()
    if(NOT sources)
      continue()
    endif()
    add_executable(fulmar_${folder}_test ${sources})
    set(libraries ${all})
    if(TARGET fulmar_${folder})
      set(libraries fulmar_${folder} fulmar_files)
      if(folder IN_LIST FULMAR_TESTED_ON_CPU)
        list(APPEND libraries fulmar_model fulmar_cpu)
      endif()
      if(folder STREQUAL "gpu")  # what an engine does beside a model's steps
        list(APPEND libraries fulmar_engine)
      endif()
    endif()
    target_link_libraries(fulmar_${folder}_test PRIVATE
      fulmar_flags fulmar_test_support ${libraries} GTest::gmock GTest::gtest_main)
    set(label ${folder})
    if(folder STREQUAL "gpu")
      target_compile_options(fulmar_gpu_test PRIVATE
        $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda;--expt-relaxed-constexpr>)
      set(label cuda)
    endif()
    gtest_discover_tests(fulmar_${folder}_test DISCOVERY_TIMEOUT 60
      PROPERTIES LABELS "${label}" TIMEOUT 300)
  endforeach()
endfunction()

# tests/fuzz/fuzz_<name>.cpp become libFuzzer programs.
function(fulmar_fuzzers)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_*.cpp)
  # Clang 14 cannot assemble the coroutines of the HTTP files with sanitizers: of the folders that need net only what
  # reads bytes from others is built.
  set(src ${PROJECT_SOURCE_DIR}/src)
  file(GLOB sources_fuzzed CONFIGURE_DEPENDS ${src}/net/json*.cpp ${src}/grammar/*.cpp)
  foreach(part net/multipart net/http_message net/http_format net/request_reader net/url net/sse cache/state_blob control/config_file
      control/worker_spec control/restart control/haproxy control/metrics_text server/errors server/fields
      server/answer_rules server/chat_intake server/tool_calls)
    list(APPEND sources_fuzzed ${src}/${part}.cpp)
  endforeach()
  add_library(fulmar_parsers_fuzzed STATIC EXCLUDE_FROM_ALL ${sources_fuzzed})
  target_link_libraries(fulmar_parsers_fuzzed PUBLIC fulmar_files fulmar_text fulmar_base simdjson::simdjson
    Boost::headers PkgConfig::xxhash yaml-cpp PRIVATE fulmar_flags)
  target_include_directories(fulmar_parsers_fuzzed PUBLIC ${src})
  # What answers requests, whole, over a stand-in engine. Besides what all are checked for: numbers of clients that
  # lose their sign or their upper bits on the way, and those beyond what they are cast to.
  file(GLOB served CONFIGURE_DEPENDS ${src}/server/*.cpp)
  list(REMOVE_ITEM served ${sources_fuzzed} ${src}/server/server.cpp)
  foreach(part cross_site client_address exchange gzip page_files secret worker_proof)
    list(APPEND served ${src}/net/${part}.cpp)
  endforeach()
  add_library(fulmar_routes_fuzzed STATIC EXCLUDE_FROM_ALL ${served} ${PROJECT_SOURCE_DIR}/tests/support/scripted_engine.cpp)
  fulmar_embed_pages(routes_fuzzed)
  target_include_directories(fulmar_routes_fuzzed PUBLIC ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(fulmar_routes_fuzzed PUBLIC fulmar_parsers_fuzzed fulmar_engine ZLIB::ZLIB OpenSSL::Crypto
    prometheus-cpp::core Boost::headers PRIVATE fulmar_flags)
  target_compile_options(fulmar_routes_fuzzed PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=float-cast-overflow,implicit-integer-truncation>)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name} PRIVATE fulmar_flags fulmar_parsers_fuzzed)
  endforeach()
  target_link_libraries(fuzz_route_body PRIVATE fulmar_routes_fuzzed)
endfunction()
