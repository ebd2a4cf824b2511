// The management libraries of GPU vendors, loaded at run time: nothing is needed at build time, and without a
// driver there are none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/shared_library.h"

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

class GpuLibrary {
 public:
  virtual ~GpuLibrary() = default;
  virtual std::vector<GpuFigures> ask() = 0;
};

// Loads a vendor's library; null where the file is absent, lacks a function or finds no driver.
std::unique_ptr<GpuLibrary> open_nvml(const char* file);
std::unique_ptr<GpuLibrary> open_rocm_smi(const char* file);

}  // namespace fulmar
