# fulmar_room(folder/room USES folder/rooms... PARTS folders...): src/<folder>/<room>/ and its parts become part of the
# library of src/<folder>/, which is declared behind its rooms. What a room may include: tools/check_layers.py reads it
# here.
function(fulmar_room path)
  cmake_parse_arguments(ARG "" "" "USES;PARTS" ${ARGN})
  list(TRANSFORM ARG_PARTS PREPEND ${path}/)
  get_filename_component(folder ${path} DIRECTORY)
  set_property(GLOBAL APPEND PROPERTY FULMAR_ROOMS_${folder} ${path} ${ARG_PARTS})
endfunction()

# fulmar_sources(out folder patterns...): the files of these patterns in src/<folder>/, its rooms and their parts.
function(fulmar_sources out folder)
  get_property(places GLOBAL PROPERTY FULMAR_ROOMS_${folder})
  set(globs)
  foreach(place ${folder} ${places})
    foreach(pattern ${ARGN})
      list(APPEND globs ${PROJECT_SOURCE_DIR}/src/${place}/${pattern})
    endforeach()
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# fulmar_folder(name USES folders... LINKS targets...): the library of src/<name>/, all its sources and its rooms'.
function(fulmar_folder name)
  cmake_parse_arguments(ARG "" "" "USES;LINKS" ${ARGN})
  set_property(GLOBAL APPEND PROPERTY FULMAR_FOLDERS fulmar_${name})
  fulmar_sources(sources ${name} *.cpp *.cu)
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

# fulmar_gpu_vendor(name): src/gpu/<room>/library/<name>/ of all rooms, one vendor's libraries, becomes part of the
# library of src/gpu/.
function(fulmar_gpu_vendor name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/gpu/*/library/${name}/*.cpp)
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

# The program: src/<folder>/, as a library that its tests link, too, and main.cpp.
function(fulmar_program name folder)
  fulmar_sources(sources ${folder} *.cpp)
  list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/src/${folder}/main.cpp)
  get_property(libraries GLOBAL PROPERTY FULMAR_FOLDERS)
  add_library(fulmar_${folder} STATIC ${sources})
  target_include_directories(fulmar_${folder} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(fulmar_${folder} PUBLIC ${libraries} CLI11::CLI11 PRIVATE fulmar_flags)
  add_executable(${name} ${PROJECT_SOURCE_DIR}/src/${folder}/main.cpp)
  target_link_libraries(${name} PRIVATE fulmar_${folder} fulmar_flags)
endfunction()

# Folders whose tests run a model.
set(FULMAR_TESTED_ON_CPU adapters ops cpu gpu ranks model cache engine server)

# tests/<folder>/*_test.cpp and those of its rooms become one executable fulmar_<folder>_test, labelled with the
# folder's name.
function(fulmar_tests)
  file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true ${PROJECT_SOURCE_DIR}/tests/*)
  get_property(all GLOBAL PROPERTY FULMAR_FOLDERS)
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
    get_property(rooms GLOBAL PROPERTY FULMAR_ROOMS_${folder})
    list(TRANSFORM rooms REPLACE "^${folder}(.*)" "${path}\\1/*_test.cpp")
    file(GLOB sources CONFIGURE_DEPENDS ${path}/*_test.cpp ${rooms})
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
      if(folder STREQUAL "tune")  # what reads the files that it writes
        list(APPEND libraries fulmar_adapters)
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
  set(src ${PROJECT_SOURCE_DIR}/src)
  # Clang 14 cannot assemble coroutines with sanitizers.
  set_source_files_properties(${src}/net/http_client.cpp ${src}/net/http_connection.cpp ${src}/net/http_server.cpp
    ${src}/hub/web_get.cpp PROPERTIES COMPILE_OPTIONS "-fno-sanitize=all;-fno-sanitize=fuzzer-no-link")
  # Besides what all are checked for: numbers of clients that lose their sign or their upper bits on the way, and
  # those beyond what they are cast to.
  target_compile_options(fulmar_server PRIVATE -fsanitize=float-cast-overflow,implicit-integer-truncation)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_*.cpp)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} EXCLUDE_FROM_ALL ${source})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name} PRIVATE fulmar_flags fulmar_server fulmar_control fulmar_adapters)
  endforeach()
  target_sources(fuzz_route_body PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/scripted_engine.cpp)
  target_include_directories(fuzz_route_body PRIVATE ${PROJECT_SOURCE_DIR}/tests)
endfunction()
