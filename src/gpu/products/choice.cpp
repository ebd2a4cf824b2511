#include "gpu/products/choice.h"

#include <algorithm>

#include "gpu/products/dot_rows.h"
#include "gpu/products/dot_value.h"
#include "gpu/products/packed_rows.h"
#include "gpu/products/row.h"
#include "gpu/products/rows.h"
#include "gpu/products/sm90/panels.h"
#include "gpu/products/value.h"

namespace fulmar::gpu {

namespace {

bool has_shape(const Product& product, ProductShape shape) {
  switch (shape) {
    case ProductShape::any:
      return true;
    case ProductShape::relu_squared:
      return product.epilogue == Epilogue::relu_squared;
    case ProductShape::low_rank:
      return 4 * product.weight.out <= product.weight.in;
    case ProductShape::narrow:
      return product.weight.in <= kMostNarrowInputs;
    case ProductShape::square:
      return product.epilogue == Epilogue::none && product.weight.in == product.weight.out;
  }
  return false;
}

// Whether whole vectors of outputs can be stored, as kernels of tiles do. Those of f32, logits mostly, are
// theirs only where the order is fixed: the library is quicker.
bool suits_tiled_out(const Product& product, int64_t grain, const ProductDevice& device) {
  return suits_rows(product.in, product.weight) && product.weight.out % grain == 0 &&
         (device.fixed_order || product.out.dtype == product.in.dtype);
}

bool all_of(ProductList products, auto&& suits) {
  return std::all_of(products.begin(), products.end(), suits);
}

bool whole_vectors(Tensor in) { return in.stride % 8 == 0 && reinterpret_cast<uintptr_t>(in.data) % 16 == 0; }

// Whether the down-projection's kernels take it from packed codes.
bool suits_packed_value(const Product& one) {
  const Weight& weight = one.weight;
  return weight.transposed && one.epilogue == Epilogue::none && one.out.dtype == one.in.dtype &&
         suits_packing_transposed(weight.dtype, weight.out, weight.in, weight.group);
}

// Whether packed kernels take them together: of one format, as fragments.
bool suits_packed(ProductList products) {
  const Weight& any = products.front().weight;
  return all_of(products, [&](const Product& one) {
    return is_packed(one.weight) && !one.weight.transposed && one.weight.dtype == any.dtype &&
           whole_vectors(one.in);
  });
}

bool suits_float8_way(const Product& one) {
  return is_float8_rows(one.weight) && whole_vectors(one.in) && one.out.stride % 8 == 0;
}

bool equal_inputs(ProductList products) {
  return all_of(products, [&](const Product& one) { return one.weight.in == products.front().weight.in; });
}

// Percent of the multiprocessors that panels fill.
int64_t panels_filled(ProductList products, const ProductDevice& device) {
  if constexpr (kHopperCode) return plan_panels(products, {device.multiprocessors}).filled;
  return 0;
}

static_assert(kMostOwnRows == kMostDotRows);
bool by_dots(Way way) { return way == Way::dot_value || way == Way::dot_rows; }

// Whether the device has the way's kernel, and the operands are such as it wants them.
bool suits(Way way, ProductList products, const ProductDevice& device) {
  if (!one_by_one(way) && device.matrix_units == by_dots(way)) return false;
  const Product& any = products.front();
  switch (way) {
    case Way::value:
      return any.epilogue == Epilogue::none && any.out.dtype == any.weight.dtype &&
             any.in.dtype == any.weight.dtype && suits_value(any.in.rows, any.weight);
    case Way::row:
      return equal_inputs(products) && all_of(products, [](const Product& one) {
               return suits_row(one.weight) && suits_rows(one.in, one.weight);
             });
    case Way::rows:
      return all_of(products, [](const Product& one) { return suits_rows(one.in, one.weight); });
    case Way::packed_value:
      return suits_packed_value(any) &&
             (any.in.rows <= kMostValueRows || (any.in.dtype == DType::f16 && whole_vectors(any.in)));
    case Way::packed_rows:
      return equal_inputs(products) && all_of(products, [&](const Product& one) {
               return one.weight.dtype == any.weight.dtype && whole_vectors(one.in) &&
                      suits_packed_rows(one.weight, any.in.rows);
             });
    case Way::float8_panels:
      return device.panels && all_of(products, [](const Product& one) {
               return suits_float8_way(one) && (one.out.dtype == DType::f16 || one.out.dtype == DType::f32);
             });
    case Way::float8:
      return all_of(products, [](const Product& one) { return suits_float8_way(one); });
    case Way::packed_tiles:
      return any.in.dtype == DType::f16 && suits_packed(products) && equal_inputs(products) &&
             all_of(products, [](const Product& one) { return one.weight.out % 4 == 0; });
    case Way::packed_panels:
      if (!device.panels || any.in.dtype != DType::f16 || !whole_vectors(any.in)) return false;
      return any.weight.transposed
                 ? products.size() == 1 && suits_packed_value(any)
                 : suits_packed(products) &&
                       all_of(products, [](const Product& one) { return one.weight.out % 4 == 0; });
    case Way::dot_value:
      return suits_dot_value(any.in, any.weight);
    case Way::dot_rows:
      return all_of(products, [](const Product& one) { return suits_rows(one.in, one.weight); });
    case Way::panels:
      return device.panels &&
             all_of(products, [&](const Product& one) { return suits_tiled_out(one, 4, device); });
    case Way::many:
      return device.panels && many_rows_pay(any.in.rows) && suits_tiled_out(any, 8, device);
    case Way::tiles:
      return !device.panels && equal_inputs(products) &&
             all_of(products, [&](const Product& one) { return suits_tiled_out(one, 4, device); });
    case Way::plain:
    case Way::library:
      return true;
  }
  return false;
}

}  // namespace

Way choose_way(ProductList products, const ProductDevice& device) {
  const int64_t rows = products.front().in.rows;
  const auto count = static_cast<int>(products.size());
  const std::span<const Rule> rules = device.fixed_order ? std::span<const Rule>(kFixedRules) : kRules;
  for (const Rule& rule : rules) {
    if (count < rule.least_products || count > rule.most_products) continue;
    if (rows < rule.least_rows || rows > rule.most_rows) continue;
    if (!has_shape(products.front(), rule.shape) || !suits(rule.way, products, device)) continue;
    if (rule.least_filled > 0 && panels_filled(products, device) < rule.least_filled) continue;
    return rule.way;
  }
  return Way::library;
}

Way choose_side_way(const Product& product) { return suits_float8_way(product) ? Way::float8 : Way::library; }

}  // namespace fulmar::gpu
