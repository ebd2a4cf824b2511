// The one door to products: islands name what is multiplied and what follows; which kernel does it, in how
// many launches and on which queue is decided here (kernels.h). Owns the GEMM library, the counters of
// split-K and the side queues.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "base/result.h"
#include "gpu/device/device.h"
#include "gpu/device/memory.h"
#include "gpu/products/kernels.h"
#include "gpu/products/product.h"
#include "gpu/products/resources.h"
#include "gpu/products/row.h"

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

  bool has_panels() const { return resources_.device.panels; }
  Gemm& library() { return *resources_.library; }

 private:
  static constexpr size_t kDecodedBytes = size_t{32} << 20;  // of a piece of decoded weights
  static constexpr size_t kFloat8Bytes = size_t{72} << 20;  // of codes: 4,096 rows of 16,384 and their scales

  Products(const DeviceFacts&, const Queue& main, const Options&, Workspace);
  Status open_queues(const DeviceFacts&, const Options&);

  GemmResources resources_;
  Queue main_, side_[kSides];
  cudaEvent_t fork_ = nullptr, join_[kSides] = {};
  bool forked_ = false;
  bool float8_;
};

}  // namespace fulmar::gpu
