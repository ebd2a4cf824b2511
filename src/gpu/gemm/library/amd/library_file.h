// Loading of either of AMD's GEMM libraries.
#pragma once

#include <string>

#include "base/shared_library.h"
#include "gpu/gemm/library/amd/gemm_library.h"

namespace fulmar::gpu {

constexpr int kLibrarySuccess = 0;  // of either library

// Opens the first file that exists; an error names those that were tried.
inline Result<SharedLibrary> open_first(LibraryFiles files, const char* library) {
  std::string tried;
  for (const char* name : files) {
    SharedLibrary file(name, RTLD_NODELETE);  // their kernels are registered with the runtime
    if (file.found()) return file;
    tried += (tried.empty() ? "" : ", ") + std::string(name);
  }
  return Error{ErrorKind::unsupported, std::string(library) + " was not found as " + tried};
}

inline Status lacks(const char* library, const char* function) {
  return Error{ErrorKind::unsupported, std::string(library) + " lacks the function " + function};
}

inline Error failed(const char* call, int status) {
  return Error{ErrorKind::unsupported, std::string(call) + ", status " + std::to_string(status)};
}

}  // namespace fulmar::gpu
