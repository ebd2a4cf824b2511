// The one door to GEMMs: islands name what is multiplied and the epilogue; which kernel runs (kernels.h), in
// how many launches and on which queue is decided here. Owns the side queues and what launches share.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "base/result.h"
#include "gpu/device/device.h"
#include "gpu/device/memory.h"
#include "gpu/gemm/gemm.h"
#include "gpu/gemm/gemv.h"
#include "gpu/gemm/kernels.h"
#include "gpu/gemm/resources.h"

namespace fulmar::gpu {

class GemmDispatcher {
 public:
  static constexpr int kSides = kQueues - 1;

  struct Options {
    bool plain = false;                  // launch_naive in the library's place, which is then not loaded
    bool panels = true;                  // false: no wgmma kernels, as on GPUs that lack the instruction
    bool fixed_order = false;            // GemmDevice::fixed_order
    bool float8 = false;                 // reserves room for the E4M3 codes of large batches of inputs
    std::filesystem::path choices = {};  // VendorGemmOptions::choices
  };
  // Returns scratch memory that is valid until the next call: two calls may give the same.
  using Workspace = std::function<void*(size_t bytes)>;

  // Opens the dispatcher. Fails where the library is missing or the device has no memory. `main` is the queue
  // of steps and must outlive this object.
  static Result<std::unique_ptr<GemmDispatcher>> open(const DeviceFacts&, const Queue& main, const Options&,
                                                      Workspace);
  ~GemmDispatcher();
  GemmDispatcher(const GemmDispatcher&) = delete;
  GemmDispatcher& operator=(const GemmDispatcher&) = delete;

  // Enqueues all products with their epilogues. On the main queue, products of one weight format share a
  // launch where a grouped kernel takes them. On a side queue each runs alone by the library, unless the
  // order of adding is fixed: our split-K kernels share one workspace and one set of counters.
  void run(const Queue&, GemmList);
  void run(const Queue& queue, const Gemm& product) { run(queue, GemmList(&product, 1)); }
  // Returns whether run() on the main queue takes those of each format in one launch.
  bool together(GemmList) const;

  // Runs key, then value on key's output. Where both are FP8 products of the library, relu² is fused into the
  // quantisation of value's input instead of the key's epilogue.
  void run_feed_forward(const Gemm& key, const Gemm& value);

  // Runs on the main queue. The results of the last `late` products are valid only after join(): they may run
  // on side queues.
  void run(GemmList, size_t late);

  // Lets side queues run beside the main queue until join(): they start after what it holds so far.
  void fork();
  const Queue& side(int i) const { return side_[i]; }
  // Makes the main queue wait for the side queues and returns it. After a fork PDL is off for the next
  // kernel, since it has more than one predecessor.
  Queue join();

  // Enqueues products of one row; those of each format share a launch (gemv.h, skinny_q.h). suits_lone_row
  // must be true of every weight.
  void run_row(std::span<const Gemv>, const RowNorm& = {});
  static bool suits_lone_row(const Weight&);
  // Adds in @ weight^T to out, f32 [1, outs]. suits_lone_value must be true of the weight.
  void add_lone_value(Tensor in, const Weight& weight, Tensor out);
  static bool suits_lone_value(const Weight&);
  bool makes_inputs(std::span<const Gemv>) const;

  // Reserves memory for decoded quantised weights; must be called before a step that decodes some.
  Status reserve_decoded();

  bool has_wgmma() const { return resources_.device.wgmma; }
  VendorGemm& library() { return *resources_.library; }

 private:
  static constexpr size_t kDecodedBytes = size_t{32} << 20;  // of a chunk of decoded weights
  static constexpr size_t kFloat8Bytes = size_t{72} << 20;  // of codes: 4,096 rows of 16,384 and their scales

  GemmDispatcher(const DeviceFacts&, const Queue& main, const Options&, Workspace);
  Status open_queues(const DeviceFacts&, const Options&);

  GemmResources resources_;
  Queue main_, side_[kSides];
  cudaEvent_t fork_ = nullptr, join_[kSides] = {};
  bool forked_ = false;
  bool float8_;
};

}  // namespace fulmar::gpu
