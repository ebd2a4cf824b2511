#include "gpu/products/products.h"

#include <algorithm>

#include "base/check.h"
#include "gpu/products/dequantise.h"
#include "gpu/products/dot_rows.h"
#include "gpu/products/dot_value.h"
#include "gpu/products/epilogue.h"
#include "gpu/products/few_rows_pair.h"
#include "gpu/products/packed_rows.h"
#include "gpu/products/packed_tiles.h"
#include "gpu/products/packed_value.h"
#include "gpu/products/plain.h"
#include "gpu/products/rows.h"
#include "gpu/products/sm90/float8_panels.h"
#include "gpu/products/sm90/many.h"
#include "gpu/products/sm90/packed_panels.h"
#include "gpu/products/sm90/panels.h"
#include "gpu/products/tiles.h"
#include "gpu/products/value.h"

namespace fulmar::gpu {

namespace {

// Formats are numbers and the inputs that share a scale.
bool same_format(const Weight& a, const Weight& b) { return a.dtype == b.dtype && a.group == b.group; }

// Products of each format, in their order.
template <class P>
class ByFormat {
 public:
  explicit ByFormat(std::span<const P> products) {
    FULMAR_CHECK(products.size() <= kMostProducts);
    bool done[kMostProducts] = {};
    size_t placed = 0;
    for (size_t i = 0; i < products.size(); i++) {
      if (done[i]) continue;
      for (size_t j = i; j < products.size(); j++) {
        if (!same_format(products[j].weight, products[i].weight)) continue;
        sorted_[placed++] = products[j];
        done[j] = true;
      }
      end_[count_++] = placed;
    }
  }
  size_t count() const { return count_; }
  std::span<const P> operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : end_[i - 1];
    return {sorted_ + begin, end_[i] - begin};
  }

 private:
  P sorted_[kMostProducts];
  size_t end_[kMostProducts], count_ = 0;
};

bool by_panels(Way way) {
  return way == Way::panels || way == Way::packed_panels || way == Way::float8_panels;
}
// Counters that a launch of panels wants: whole tiles want none.
size_t counters_of(const PanelPlan& plan) {
  return plan.steps_each == 0 ? 0 : static_cast<size_t>(plan.tiles);
}
int64_t outs_of(ProductList products) {
  int64_t outs = 0;
  for (const Product& one : products) outs += one.weight.out;
  return outs;
}

// What kernels of few rows stream of products: their tiles have equally many outputs.
template <class List>
TileStream tile_stream(const List& products) {
  int64_t bytes = 0, tiles = 0;
  for (const auto& one : products) {
    bytes += static_cast<int64_t>(one.weight.bytes());
    tiles += (one.weight.out + kPackedOuts - 1) / kPackedOuts;
  }
  return {tiles, bytes / tiles};
}

std::span<const RowProduct> row_products(ProductList products, RowProduct (&rows)[kMostProducts]) {
  size_t count = 0;
  for (const Product& one : products) {
    rows[count++] = {{one.in, {}}, one.weight, {one.out, {}}, one.epilogue};
  }
  return {rows, count};
}

}  // namespace

Products::Products(const DeviceFacts& facts, const Queue& main, const Options& options, Workspace workspace)
    : device_{facts.multiprocessors, facts.hopper && options.panels && facts.matrix_units, facts.matrix_units,
              options.fixed_order},
      main_(main),
      float8_(options.float8),
      workspace_(std::move(workspace)) {}

Result<std::unique_ptr<Products>> Products::open(const DeviceFacts& facts, const Queue& main,
                                                 const Options& options, Workspace workspace) {
  std::unique_ptr<Products> products(new Products(facts, main, options, std::move(workspace)));
  FULMAR_TRY(products->open_queues(facts, options));
  return products;
}

Status Products::open_queues(const DeviceFacts& facts, const Options& options) {
  FULMAR_GPU_TRY(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
  for (int i = 0; i < kSides; i++) {
    FULMAR_GPU_TRY(cudaStreamCreateWithFlags(&side_[i].stream, cudaStreamNonBlocking));
    FULMAR_GPU_TRY(cudaEventCreateWithFlags(&join_[i], cudaEventDisableTiming));
    side_[i].index = 1 + i;
  }
  FULMAR_ASSIGN(gemm_, Gemm::open(facts, {options.plain, options.choices}));
  if constexpr (kHopperCode) {
    if (device_.panels) room_ = panel_room(facts.multiprocessors);
  }
  FULMAR_ASSIGN(counters_, allocate_device((kValueCounters + kTileCounters) * sizeof(uint32_t)));
  FULMAR_GPU_TRY(cudaMemset(counters_.data(), 0, counters_.bytes()));
  return {};
}

Products::~Products() {
  if (fork_ != nullptr) ignore_failure(cudaEventDestroy(fork_));
  for (const cudaEvent_t event : join_) {
    if (event != nullptr) ignore_failure(cudaEventDestroy(event));
  }
  for (const Queue& queue : side_) {
    if (queue.stream != nullptr) ignore_failure(cudaStreamDestroy(queue.stream));
  }
}

bool Products::together(ProductList products) const {
  bool all = true;
  const ByFormat<Product> formats(products);
  for (size_t i = 0; i < formats.count(); i++) all &= !one_by_one(choose_way(formats[i], device_));
  return all;
}

void Products::run(const Queue& queue, ProductList products) {
  const ByFormat<Product> formats(products);
  if (formats.count() == 2 && run_pair(queue, formats[0], formats[1])) return;
  for (size_t i = 0; i < formats.count(); i++) {
    const ProductList alike = formats[i];
    const bool chosen = queue.index == main_.index || device_.fixed_order;
    const Way way = chosen ? choose_way(alike, device_) : choose_side_way(alike.front());
    if (!one_by_one(way) || alike.size() == 1) {
      run_by(way, queue, alike);
    } else {
      for (const Product& one : alike) run(queue, one);
    }
  }
}

bool Products::run_pair(const Queue& queue, ProductList first, ProductList second) {
  if (queue.index != main_.index || !queue.overlap || device_.fixed_order) return false;
  return run_few_rows_pair(first, second) || run_panel_pair(queue, first, second);
}

bool Products::run_few_rows_pair(ProductList first, ProductList second) {
  const Way way = choose_way(second, device_);
  if (choose_way(first, device_) != Way::packed_rows || (way != Way::rows && way != Way::row)) return false;
  const FewRowsPair pair = plan_few_rows_pair(tile_stream(first), tile_stream(second), whole_gpu().blocks);
  if (pair.first == 0) return false;
  RowProduct rows[kMostProducts];
  linear_packed_rows(main_, row_products(first, rows), {pair.first, LaunchPlace::first});
  if (way == Way::rows) {
    linear_rows(main_, second, LaunchPlace::second);
  } else {
    linear_row(main_, row_products(second, rows), {pair.second, LaunchPlace::second});
  }
  return true;
}

bool Products::run_panel_pair(const Queue& queue, ProductList first, ProductList second) {
  const int64_t rows = first.front().in.rows;
  if (rows > kMostPairRows) return false;
  PanelLaunch one{choose_way(first, device_), first};
  const PanelLaunch other{choose_way(second, device_), second};
  if (!by_panels(one.way) || !by_panels(other.way) || other.way == Way::float8_panels) return false;
  Float8Input storage[kMostProducts];
  if (one.way == Way::float8_panels) {
    const int64_t room = float8_room(queue, first);
    if (rows > room) return false;
    one.inputs = quantise(queue, first, false, room, storage);
  }
  if constexpr (kHopperCode) {
    const int64_t outs = outs_of(second), share = 100 * outs / (outs + outs_of(first));
    const PanelPair plans = plan_panel_pair(
        room_, share, [&](const PanelRoom& room) { return plan_of(one, room); },
        [&](const PanelRoom& room) { return plan_of(other, room); });
    const size_t first_counters = counters_of(plans.first);
    FULMAR_CHECK(first_counters + counters_of(plans.second) <= kTileCounters);
    const size_t first_bytes = plans.first.partial_bytes;
    auto* const partial = static_cast<std::byte*>(workspace_(first_bytes + plans.second.partial_bytes));
    launch(queue, one, plans.first, {reinterpret_cast<float*>(partial), tile_counters(), LaunchPlace::first});
    launch(queue, other, plans.second,
           {reinterpret_cast<float*>(partial + first_bytes), tile_counters() + first_counters,
            LaunchPlace::second});
  }
  return true;
}

void Products::run(ProductList products, size_t late) {
  if (together(products)) return run(main_, products);
  fork();
  const size_t early = products.size() - late;
  for (size_t i = 0; i < late; i++) {
    run(side_[i % kSides], products[products.size() - 1 - i]);
  }
  for (const Product& one : products.first(early)) run(main_, one);
}

void Products::run_feed_forward(const Product& key, const Product& value) {
  const auto goes_by_library = [&](const Product& one) {
    return choose_way({&one, 1}, device_) == Way::float8;
  };
  if (key.epilogue != Epilogue::relu_squared || !goes_by_library(key) || !goes_by_library(value)) {
    run(main_, key);
    return run(main_, value);
  }
  Product raw = key;
  raw.epilogue = Epilogue::none;
  run(main_, raw);
  run_float8(Way::float8, main_, {&value, 1}, true);
}

void Products::run_by(Way way, const Queue& queue, ProductList products) {
  FULMAR_CHECK(products.size() <= kMostProducts);
  switch (way) {
    case Way::value:
      return run_value(queue, products.front());
    case Way::row: {
      RowProduct rows[kMostProducts];
      return linear_row(queue, row_products(products, rows), whole_gpu());
    }
    case Way::rows:
      return linear_rows(queue, products);
    case Way::packed_value:
      return run_packed_value(queue, products.front());
    case Way::packed_rows: {
      RowProduct rows[kMostProducts];
      return linear_packed_rows(queue, row_products(products, rows), whole_gpu());
    }
    case Way::dot_value:
      return run_dot_value(queue, products.front());
    case Way::dot_rows:
      return linear_dot_rows(queue, products);
    case Way::panels:
    case Way::packed_panels:
      return run_panels(queue, {way, products});
    case Way::many:
      if constexpr (kHopperCode) linear_many(queue, products.front(), device_.multiprocessors);
      return;
    case Way::tiles:
    case Way::packed_tiles:
      return run_tiles(way, queue, products);
    case Way::float8_panels:
    case Way::float8:
      return run_float8(way, queue, products);
    case Way::plain:
    case Way::library:
      return run_alone(way, queue, products.front());
  }
}

void Products::run_value(const Queue& queue, const Product& product) {
  const auto& [in, weight, out, epilogue] = product;
  const ValuePlan plan = plan_value(in.rows, weight.in, weight.out, device_.multiprocessors);
  FULMAR_CHECK(static_cast<size_t>(weight.out / kValueOuts) <= kValueCounters);
  linear_value(queue, plan, in, weight, out, static_cast<float*>(workspace_(plan.partial_bytes)),
               value_counters());
}

void Products::run_packed_value(const Queue& queue, const Product& product) {
  const auto& [in, weight, out, epilogue] = product;
  const ValuePlan plan = plan_value(in.rows, weight.in, weight.out, device_.multiprocessors);
  const int64_t row_groups = (in.rows + kMostOwnRows - 1) / kMostOwnRows;
  FULMAR_CHECK(static_cast<size_t>(weight.out / kPackedValueOuts * row_groups) <= kValueCounters);
  linear_packed_value(queue, plan, in, weight, out, static_cast<float*>(workspace_(plan.partial_bytes)),
                      value_counters());
}

void Products::run_dot_value(const Queue& queue, const Product& product) {
  const DotValuePlan plan = plan_dot_value(product.in.rows, product.weight);
  FULMAR_CHECK(static_cast<size_t>(plan.blocks) <= kValueCounters);
  linear_dot_value(queue, plan, product, static_cast<float*>(workspace_(plan.partial_bytes)),
                   value_counters());
}

void Products::run_tiles(Way way, const Queue& queue, ProductList products) {
  const bool packed = way == Way::packed_tiles;
  const auto plan_of = packed ? plan_packed_tiles : plan_tiles;
  const TilePlan plan = plan_of(products, device_.multiprocessors, device_.fixed_order);
  FULMAR_CHECK(plan.slices == 1 || static_cast<size_t>(plan.tiles) <= kTileCounters);
  auto* partial = static_cast<float*>(workspace_(plan.partial_bytes));
  if (packed) return linear_packed_tiles(queue, products, plan, partial, tile_counters());
  linear_tiles(queue, products, plan, partial, tile_counters());
}

PanelPlan Products::plan_of(const PanelLaunch& one, const PanelRoom& room, bool whole) {
  if constexpr (kHopperCode) {
    if (one.way == Way::float8_panels) return plan_float8_panels(one.products, room, whole);
    const auto plan = one.way == Way::packed_panels ? plan_packed_panels : plan_panels;
    return plan(one.products, room, whole);
  }
  return {};
}

void Products::launch(const Queue& queue, const PanelLaunch& one, const PanelPlan& plan,
                      const PanelWork& work) {
  if constexpr (kHopperCode) {
    if (one.way == Way::float8_panels)
      return linear_float8_panels(queue, one.products, one.inputs, plan, work);
    const auto linear = one.way == Way::packed_panels ? linear_packed_panels : linear_panels;
    linear(queue, one.products, plan, work);
  }
}

void Products::run_panels(const Queue& queue, const PanelLaunch& one) {
  // Beside the main queue others use what a divided sum wants.
  const PanelPlan plan = plan_of(one, room_, device_.fixed_order || queue.index != main_.index);
  FULMAR_CHECK(counters_of(plan) <= kTileCounters);
  launch(queue, one, plan, {static_cast<float*>(workspace_(plan.partial_bytes)), tile_counters()});
}

void Products::run_alone(Way way, const Queue& queue, const Product& product) {
  const auto& [in, weight, out, epilogue] = product;
  if (weight.dtype == in.dtype) {
    multiply(way, queue, in, weight, out);
  } else {
    run_decoded(way, queue, product);
  }
  apply_epilogue(queue, out, epilogue);
}

int64_t Products::float8_room(const Queue& queue, ProductList products) const {
  constexpr int64_t kGrain = 64;  // keeps what lies behind scales aligned
  int64_t row_bytes = 0;
  for (const Product& one : products) row_bytes += one.weight.in + static_cast<int64_t>(sizeof(float));
  const auto bytes = static_cast<int64_t>(decoded_[queue.index].bytes());
  const int64_t room = bytes / row_bytes / kGrain * kGrain;
  FULMAR_CHECK(room > 0, "no room was made for codes of inputs");
  return room;
}

std::span<const Float8Input> Products::quantise(const Queue& queue, ProductList products, bool relu_squared,
                                                int64_t room, Float8Input (&to)[kMostProducts]) {
  auto* at = static_cast<std::byte*>(decoded_[queue.index].data());
  size_t count = 0;
  for (const Product& one : products) {
    const int64_t rows = one.in.rows, in = one.weight.in;
    auto* const scales = reinterpret_cast<float*>(at + room * in);
    to[count++] = {one.in, {at, DType::f8_e4m3, rows, in, in}, scales, relu_squared};
    at = reinterpret_cast<std::byte*>(scales + room);
  }
  const std::span<const Float8Input> inputs(to, count);
  if constexpr (kHopperCode) quantise_inputs(queue, inputs);
  return inputs;
}

void Products::run_float8(Way way, const Queue& queue, ProductList products, bool relu_squared) {
  const int64_t rows = products.front().in.rows, room = float8_room(queue, products);
  for (int64_t first = 0; first < rows; first += room) {
    Product piece[kMostProducts];
    Float8Input storage[kMostProducts];
    size_t count = 0;
    for (Product one : products) {
      const int64_t left = std::min(room, rows - first);
      one.in = one.in.slice_rows(first, left), one.out = one.out.slice_rows(first, left);
      piece[count++] = one;
    }
    const ProductList pieces(piece, count);
    const auto inputs = quantise(queue, pieces, relu_squared, room, storage);
    if (way == Way::float8_panels) {
      run_panels(queue, {way, pieces, inputs});
    } else {
      multiply_by_library(queue, pieces, inputs);
    }
  }
}

void Products::multiply_by_library(const Queue& queue, ProductList products,
                                   std::span<const Float8Input> inputs) {
  const Float8Input* input = inputs.data();
  for (const Product& one : products) {
    const Float8Input& in = *input++;
    if (gemm_->run_float8(queue, in.codes, in.scales, one.weight, one.out)) {
      apply_epilogue(queue, one.out, one.epilogue);
    } else {
      run_panels(queue, {Way::float8_panels, {&one, 1}, {&in, 1}});
    }
  }
}

void Products::multiply(Way way, const Queue& queue, Tensor in, const Weight& weight, Tensor out) {
  if (way == Way::plain) return linear_plain(queue, in, weight, out);
  gemm_->run(queue, in, weight, out);
}

Status Products::reserve_decoded() {
  for (Buffer& buffer : decoded_) {
    if (buffer.data() != nullptr) continue;
    const bool of_inputs = float8_ && &buffer == &decoded_[main_.index];
    FULMAR_ASSIGN(buffer, allocate_device(of_inputs ? kFloat8Bytes : kDecodedBytes));
  }
  return {};
}

void Products::run_decoded(Way way, const Queue& queue, const Product& product) {
  const auto& [in, weight, out, epilogue] = product;
  const Buffer& buffer = decoded_[queue.index];
  const int64_t row_bytes = weight.in * static_cast<int64_t>(size_of(in.dtype));
  // Whole tiles of packed outputs, which also keeps the library's alignment.
  const int64_t most = static_cast<int64_t>(buffer.bytes()) / row_bytes / kPackedOuts * kPackedOuts;
  FULMAR_CHECK(most > 0, "no room was made for decoded weights");
  for (int64_t first = 0; first < weight.out; first += most) {
    const int64_t rows = std::min(most, weight.out - first);
    dequantise(queue, weight, first, rows, buffer.data(), in.dtype);
    const Weight decoded{in.dtype, rows, weight.in, buffer.data(), weight.transposed};
    multiply(way, queue, in, decoded, out.slice_cols(first, rows));
  }
}

void Products::fork() {
  FULMAR_GPU(cudaEventRecord(fork_, main_.stream));
  for (const Queue& side : side_) FULMAR_GPU(cudaStreamWaitEvent(side.stream, fork_, 0));
  forked_ = true;
}

Queue Products::join() {
  Queue queue = main_;
  if (!forked_) return queue;
  forked_ = false;
  for (int i = 0; i < kSides; i++) {
    FULMAR_GPU(cudaEventRecord(join_[i], side_[i].stream));
    FULMAR_GPU(cudaStreamWaitEvent(queue.stream, join_[i], 0));
  }
  queue.overlap = false;
  return queue;
}

void Products::run_row(std::span<const RowProduct> products, const RowNorm& norm) {
  const ByFormat<RowProduct> formats(products);
  const auto run = [&](std::span<const RowProduct> alike, const LaunchShare& share) {
    if (!alike.front().weight.plain16()) return linear_packed_rows(main_, alike, share);
    linear_row(main_, alike, share, norm);
  };
  if (formats.count() == 2 && main_.overlap && !formats[0].front().weight.plain16()) {
    const FewRowsPair pair =
        plan_few_rows_pair(tile_stream(formats[0]), tile_stream(formats[1]), whole_gpu().blocks);
    if (pair.first > 0) {
      run(formats[0], {pair.first, LaunchPlace::first});
      return run(formats[1], {pair.second, LaunchPlace::second});
    }
  }
  for (size_t i = 0; i < formats.count(); i++) run(formats[i], whole_gpu());
}

bool Products::suits_lone_row(const Weight& weight) {
  return suits_row(weight) || suits_packed_rows(weight, 1);
}

void Products::add_lone_value(Tensor in, const Weight& weight, Tensor out) {
  if (weight.transposed) return run_packed_value(main_, {in, weight, out});
  const RowProduct whole[] = {{{in, {}}, weight, {out, {}}, Epilogue::none, true}};
  run_row(whole);
}

bool Products::suits_lone_value(const Weight& weight) {
  if (!weight.transposed) return suits_packed_rows(weight, 1);
  return suits_packing_transposed(weight.dtype, weight.out, weight.in, weight.group);
}

bool Products::makes_inputs(std::span<const RowProduct> products) const {
  const bool plain = std::all_of(products.begin(), products.end(),
                                 [](const RowProduct& one) { return one.weight.plain16(); });
  return plain && suits_made_inputs(products, whole_gpu().blocks);
}

}  // namespace fulmar::gpu
