// The one door to products: islands name what is multiplied and what follows; which kernel does it, in how
// many launches and on which queue is decided here (choice.h). Owns the GEMM library, the counters of split-K
// and the side queues.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "base/result.h"
#include "gpu/device/device.h"
#include "gpu/device/memory.h"
#include "gpu/products/choice.h"
#include "gpu/products/gemm.h"
#include "gpu/products/product.h"
#include "gpu/products/row.h"
#include "gpu/products/sm90/float8_inputs.h"
#include "gpu/products/sm90/panels.h"

namespace fulmar::gpu {

class Products {
 public:
  static constexpr int kSides = kQueues - 1;

  struct Options {
    bool plain = false;                  // linear_plain in the library's place, which is then not loaded
    bool panels = true;                  // false: the ways of GPUs that have none
    bool fixed_order = false;            // ProductDevice::fixed_order
    bool float8 = false;                 // room for the codes of many rows of inputs
    std::filesystem::path choices = {};  // GemmOptions::choices
  };
  // Bytes of device memory for the time of the launches that follow at once; a later call may give the same.
  using Workspace = std::function<void*(size_t bytes)>;

  // Fails where the library is missing or the device has no memory. `main` is the queue of steps and outlives
  // this.
  static Result<std::unique_ptr<Products>> open(const DeviceFacts&, const Queue& main, const Options&,
                                                Workspace);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // All of them, epilogues applied, in one launch of each format where that pays, behind what the queue was
  // given before. On side queues one by one, by the library unless the order of adding is fixed: kernels
  // of ours share counters and working memory where they divide a sum.
  void run(const Queue&, ProductList);
  void run(const Queue& queue, const Product& product) { run(queue, ProductList(&product, 1)); }
  // Whether run() on the main queue takes those of each format in one launch.
  bool together(ProductList) const;

  // On the main queue, the second of what the first leaves, for which the first's epilogue may wait: behind a
  // library that has none, inputs become relu² on their way into codes.
  void run_feed_forward(const Product& key, const Product& value);

  // On the main queue, the last `late` of which may take longer: what needs them waits for join(). Together,
  // or the late ones beside the others on side queues.
  void run(ProductList, size_t late);

  // What side queues are given between fork() and join() runs beside the main queue.
  void fork();
  const Queue& side(int i) const { return side_[i]; }
  // The main queue, behind all of them. After a fork without PDL: the first kernel waits for more than the
  // one in front and cannot start early.
  Queue join();

  // Products of a lone row, those of each format in one launch (row.h, packed_rows.h), whose weights
  // suits_lone_row is true of.
  void run_row(std::span<const RowProduct>, const RowNorm& = {});
  static bool suits_lone_row(const Weight&);
  // out, f32 [1, outs], += in @ weight^T where suits_lone_value is true of the weight.
  void add_lone_value(Tensor in, const Weight& weight, Tensor out);
  static bool suits_lone_value(const Weight&);
  bool makes_inputs(std::span<const RowProduct>) const;

  // Makes room for quantised weights, which are decoded piece by piece; called before a step meets one.
  Status reserve_decoded();

  bool has_panels() const { return device_.panels; }
  Gemm& library() { return *gemm_; }

 private:
  static constexpr size_t kValueCounters = 4096, kTileCounters = 4096;
  static constexpr size_t kDecodedBytes = size_t{32} << 20;  // of a piece of decoded weights
  static constexpr size_t kFloat8Bytes = size_t{72} << 20;  // of codes: 4,096 rows of 16,384 and their scales

  Products(const DeviceFacts&, const Queue& main, const Options&, Workspace);
  Status open_queues(const DeviceFacts&, const Options&);

  void run_by(Way, const Queue&, ProductList);
  // What kernels of few rows take where nothing runs beside them: two blocks a multiprocessor.
  LaunchShare whole_gpu() const { return {2 * device_.multiprocessors}; }
  // Two formats side by side, the second's on what the first leaves free; false, and nothing done, where
  // neither kernels of few rows nor panels take both.
  bool run_pair(const Queue&, ProductList first, ProductList second);
  bool run_few_rows_pair(ProductList first, ProductList second);
  bool run_panel_pair(const Queue&, ProductList first, ProductList second);
  void run_value(const Queue&, const Product&);
  void run_packed_value(const Queue&, const Product&);
  // E4M3 by E4M3: inputs are quantised by row, in one launch, in front of the panels or the library; of many
  // rows so many at a time as their codes find room.
  void run_float8(Way, const Queue&, ProductList, bool relu_squared = false);
  int64_t float8_room(const Queue&, ProductList) const;  // rows
  std::span<const Float8Input> quantise(const Queue&, ProductList, bool relu_squared, int64_t room,
                                        Float8Input (&to)[kMostProducts]);
  // What one launch of panels multiplies, by which kernel; inputs: codes, where that wants them.
  struct PanelLaunch {
    Way way;
    ProductList products;
    std::span<const Float8Input> inputs = {};
  };
  void run_panels(const Queue&, const PanelLaunch&);
  static PanelPlan plan_of(const PanelLaunch&, const PanelRoom&, bool whole = false);
  static void launch(const Queue&, const PanelLaunch&, const PanelPlan&, const PanelWork&);
  // What the library has no product for goes by panels, too.
  void multiply_by_library(const Queue&, ProductList, std::span<const Float8Input>);
  void run_dot_value(const Queue&, const Product&);
  void run_tiles(Way, const Queue&, ProductList);
  void run_alone(Way, const Queue&, const Product&);
  // out = in @ weight^T by plain.cu or the library, of weights in the type of the input.
  void multiply(Way, const Queue&, Tensor in, const Weight&, Tensor out);
  // The same, the weight decoded to that type first, some of its rows at a time.
  void run_decoded(Way, const Queue&, const Product&);
  uint32_t* value_counters() const { return static_cast<uint32_t*>(counters_.data()); }
  uint32_t* tile_counters() const { return value_counters() + kValueCounters; }

  ProductDevice device_;
  PanelRoom room_;
  Queue main_, side_[kSides];
  cudaEvent_t fork_ = nullptr, join_[kSides] = {};
  bool forked_ = false;
  bool float8_;
  std::unique_ptr<Gemm> gemm_;
  Buffer counters_;
  Buffer decoded_[kQueues];  // products of different queues run at the same time
  Workspace workspace_;
};

}  // namespace fulmar::gpu
