// What a kernel that multiplies weights tells of itself. The list of them is kernels.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "gpu/device/device.h"
#include "gpu/products/product.h"

namespace fulmar::gpu {

struct GemmResources;  // resources.h

// What the choice of a kernel knows of a device.
struct ProductDevice {
  int multiprocessors = 0;
  bool panels = false;        // compute capability 9.0, and not switched off
  bool matrix_units = false;  // without them dot products, the library or plain.cu
  bool fixed_order = false;   // products by kFixedRules
};

struct Kernel {
  std::string_view name;
  // Returns whether the device can run it; null: every device.
  bool (*needs)(const ProductDevice&);
  // Returns whether it reads these operands: a kernel without a loader for a format refuses it here.
  bool (*accepts)(ProductList, const ProductDevice&);
  // Enqueues the products, epilogues included.
  void (*launch)(const GemmResources&, const Queue&, ProductList);
  bool grouped = true;  // false: `launch` takes one product
};

constexpr bool has_matrix_units(const ProductDevice& device) { return device.matrix_units; }
constexpr bool has_no_matrix_units(const ProductDevice& device) { return !device.matrix_units; }
constexpr bool has_panels(const ProductDevice& device) { return device.matrix_units && device.panels; }
constexpr bool has_no_panels(const ProductDevice& device) { return device.matrix_units && !device.panels; }

}  // namespace fulmar::gpu
