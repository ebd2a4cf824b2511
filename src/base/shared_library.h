// Libraries that are loaded at run time, so that a program starts where they are missing.
#pragma once

#include <dlfcn.h>

#include <utility>

namespace fulmar {

// A library opened by dlopen and closed with this object. If the file is missing, no function is found.
class SharedLibrary {
 public:
  // Opens `file`; `more` adds flags of dlopen, such as RTLD_NODELETE for libraries that must not be unloaded.
  explicit SharedLibrary(const char* file, int more = 0)
      : handle_(::dlopen(file, RTLD_NOW | RTLD_LOCAL | more)) {}
  SharedLibrary(SharedLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  SharedLibrary& operator=(SharedLibrary&&) = delete;
  ~SharedLibrary() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }

  bool found() const { return handle_ != nullptr; }

  template <class Function>
  bool load(const char* symbol, Function& function) const {
    if (handle_ == nullptr) return false;
    function = reinterpret_cast<Function>(::dlsym(handle_, symbol));
    return function != nullptr;
  }

 private:
  void* handle_;
};

}  // namespace fulmar
