# Warnings, sanitizers and linker choices shared by every target.
add_library(fulmar_flags INTERFACE)
target_compile_options(fulmar_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual;-Wno-missing-field-initializers>)
# GCC 12 takes `"text" + std::string` for an overlapping copy; it is not.
target_compile_options(fulmar_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
if(FULMAR_WERROR)
  target_compile_options(fulmar_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(FULMAR_FUZZ)  # what is fuzzed counts its branches, not only the targets themselves
  target_compile_options(fulmar_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()
if(FULMAR_SANITIZE STREQUAL "address")
  # vptr: buffers that spdlog's shared library makes have a type of its own, which is no fault of ours.
  target_compile_options(fulmar_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined;-fno-sanitize=vptr;-fno-sanitize-recover=all;-fno-omit-frame-pointer>)
  target_link_options(fulmar_flags INTERFACE -fsanitize=address,undefined)
elseif(FULMAR_SANITIZE STREQUAL "thread")
  target_compile_options(fulmar_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=thread;-fno-omit-frame-pointer>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-tsan>)  # GCC's notes on fences inside Asio
  target_link_options(fulmar_flags INTERFACE -fsanitize=thread)
elseif(NOT FULMAR_SANITIZE STREQUAL "")
  message(FATAL_ERROR "FULMAR_SANITIZE is '${FULMAR_SANITIZE}'; wanted 'address', 'thread' or empty")
endif()

include(${PROJECT_SOURCE_DIR}/cmake/Launcher.cmake)
fulmar_compiler_launcher(${PROJECT_SOURCE_DIR})
