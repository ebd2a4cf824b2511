// The management libraries of GPU vendors, loaded at run time: nothing is needed at build time, and without a
// driver there are none.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fulmar {

struct GpuFigures {
  int index = 0;
  std::string name;
  uint64_t memory_total_mb = 0;    // MiB
  uint64_t memory_used_mb = 0;     // by programs, where the driver tells these apart from itself
  std::optional<int> utilization;  // percent
  std::optional<int> temperature;  // degrees Celsius
  std::optional<int> power;        // watts, drawn
};

// A file that dlopen reads, closed with this object; without such a file no function is found.
class SharedLibrary {
 public:
  explicit SharedLibrary(const char* file) : handle_(::dlopen(file, RTLD_NOW | RTLD_LOCAL)) {}
  SharedLibrary(SharedLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  SharedLibrary& operator=(SharedLibrary&&) = delete;
  ~SharedLibrary() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }

  template <class Function>
  bool load(const char* symbol, Function& function) const {
    if (handle_ == nullptr) return false;
    function = reinterpret_cast<Function>(::dlsym(handle_, symbol));
    return function != nullptr;
  }

 private:
  void* handle_;
};

class GpuLibrary {
 public:
  virtual ~GpuLibrary() = default;
  virtual std::vector<GpuFigures> ask() = 0;
};

// Null where the file is absent, lacks a function or finds no driver.
std::unique_ptr<GpuLibrary> open_nvml(const char* file);
std::unique_ptr<GpuLibrary> open_rocm_smi(const char* file);

}  // namespace fulmar
