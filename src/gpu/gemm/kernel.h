// What a kernel that multiplies weights declares about itself. The list of them is kernels.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "gpu/device/device.h"
#include "gpu/gemm/gemm.h"

namespace fulmar::gpu {

struct GemmResources;  // resources.h

// What the choice of a kernel may depend on.
struct GemmDevice {
  int multiprocessors = 0;
  bool wgmma = false;         // compute capability 9.0, and not switched off
  bool matrix_units = false;  // without them dot products, the library or naive.cu
  bool fixed_order = false;   // products by kFixedRules
};

struct Kernel {
  std::string_view name;
  // Returns whether a device can run it; null: every device.
  bool (*needs)(const GemmDevice&);
  // Returns whether it reads these operands; a kernel without a loader for a format returns false.
  bool (*accepts)(GemmList, const GemmDevice&);
  // Enqueues the products, epilogues included.
  void (*launch)(const GemmResources&, const Queue&, GemmList);
  bool grouped = true;  // false: `launch` takes one product
};

constexpr bool has_matrix_units(const GemmDevice& device) { return device.matrix_units; }
constexpr bool has_no_matrix_units(const GemmDevice& device) { return !device.matrix_units; }
constexpr bool has_wgmma(const GemmDevice& device) { return device.matrix_units && device.wgmma; }
constexpr bool has_no_wgmma(const GemmDevice& device) { return device.matrix_units && !device.wgmma; }

}  // namespace fulmar::gpu
