#include "gpu/gemm/dispatcher.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "gpu/gemm/fp8.h"
#include "gpu/gemm/pair.h"
#include "gpu/gemm/skinny_launch.h"
#include "gpu/gemm/skinny_q.h"
#include "gpu/gemm/sparse_q.h"

namespace fulmar::gpu {

namespace {

// Returns whether two weights have one format: the same numbers, and as many inputs a scale.
bool same_format(const Weight& a, const Weight& b) { return a.dtype == b.dtype && a.group == b.group; }

// Groups products by format, each group in their order.
template <class P>
class ByFormat {
 public:
  explicit ByFormat(std::span<const P> products) {
    FULMAR_CHECK(products.size() <= kMostGemms);
    bool done[kMostGemms] = {};
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
  P sorted_[kMostGemms];
  size_t end_[kMostGemms], count_ = 0;
};

}  // namespace

GemmDispatcher::GemmDispatcher(const DeviceFacts& facts, const Queue& main, const Options& options,
                               Workspace workspace)
    : resources_{.device = {.multiprocessors = facts.multiprocessors,
                            .wgmma = facts.hopper && options.panels && facts.matrix_units,
                            .matrix_units = facts.matrix_units,
                            .fixed_order = options.fixed_order},
                 .workspace = std::move(workspace)},
      main_(main),
      float8_(options.float8) {
  FULMAR_CHECK(main.index == kMainQueue);
}

Result<std::unique_ptr<GemmDispatcher>> GemmDispatcher::open(const DeviceFacts& facts, const Queue& main,
                                                             const Options& options, Workspace workspace) {
  std::unique_ptr<GemmDispatcher> products(new GemmDispatcher(facts, main, options, std::move(workspace)));
  FULMAR_TRY(products->open_queues(facts, options));
  return products;
}

Status GemmDispatcher::open_queues(const DeviceFacts& facts, const Options& options) {
  FULMAR_GPU_TRY(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
  for (int i = 0; i < kSides; i++) {
    FULMAR_GPU_TRY(cudaStreamCreateWithFlags(&side_[i].stream, cudaStreamNonBlocking));
    FULMAR_GPU_TRY(cudaEventCreateWithFlags(&join_[i], cudaEventDisableTiming));
    side_[i].index = 1 + i;
  }
  auto library = VendorGemm::open(facts, {options.plain, options.choices});
  if (!library.ok() && library.error().kind == ErrorKind::unsupported) {
    spdlog::warn("{}; large products are computed without it, which is slow", library.error().text);
    library = VendorGemm::open(facts, {.plain = true});
  }
  FULMAR_ASSIGN(resources_.library, std::move(library));
  if constexpr (kHopperCode) {
    if (resources_.device.wgmma) resources_.room = wgmma_room(facts.multiprocessors);
  }
  constexpr size_t kCounters = GemmResources::kValueCounters + GemmResources::kTileCounters;
  FULMAR_ASSIGN(resources_.counters, allocate_device(kCounters * sizeof(uint32_t)));
  FULMAR_GPU_TRY(cudaMemset(resources_.counters.data(), 0, resources_.counters.bytes()));
  return {};
}

GemmDispatcher::~GemmDispatcher() {
  if (fork_ != nullptr) ignore_failure(cudaEventDestroy(fork_));
  for (const cudaEvent_t event : join_) {
    if (event != nullptr) ignore_failure(cudaEventDestroy(event));
  }
  for (const Queue& queue : side_) {
    if (queue.stream != nullptr) ignore_failure(cudaStreamDestroy(queue.stream));
  }
}

bool GemmDispatcher::together(GemmList products) const {
  bool all = true;
  const ByFormat<Gemm> formats(products);
  for (size_t i = 0; i < formats.count(); i++) all &= choose_kernel(formats[i], resources_.device)->grouped;
  return all;
}

void GemmDispatcher::run(const Queue& queue, GemmList products) {
  const ByFormat<Gemm> formats(products);
  if (formats.count() == 2 && run_pair(resources_, queue, formats[0], formats[1])) return;
  for (size_t i = 0; i < formats.count(); i++) {
    const GemmList alike = formats[i];
    const bool chosen = queue.index == kMainQueue || resources_.device.fixed_order;
    const Kernel* const kernel =
        chosen ? choose_kernel(alike, resources_.device) : choose_side_kernel(alike.front());
    if (kernel->grouped || alike.size() == 1) {
      kernel->launch(resources_, queue, alike);
    } else {
      for (const Gemm& one : alike) run(queue, one);
    }
  }
}

void GemmDispatcher::run(GemmList products, size_t late) {
  if (together(products)) return run(main_, products);
  fork();
  const size_t early = products.size() - late;
  for (size_t i = 0; i < late; i++) {
    run(side_[i % kSides], products[products.size() - 1 - i]);
  }
  for (const Gemm& one : products.first(early)) run(main_, one);
}

void GemmDispatcher::run_feed_forward(const Gemm& key, const Gemm& value) {
  const auto goes_by_library = [&](const Gemm& one) {
    return choose_kernel({&one, 1}, resources_.device) == &kLibraryFp8Kernel;
  };
  if (key.epilogue != Epilogue::relu_squared || !goes_by_library(key) || !goes_by_library(value)) {
    run(main_, key);
    return run(main_, value);
  }
  Gemm raw = key;
  raw.epilogue = Epilogue::none;
  run(main_, raw);
  run_float8_by_library(resources_, main_, {&value, 1}, true);
}

Status GemmDispatcher::reserve_decoded() {
  for (Buffer& buffer : resources_.decoded) {
    if (buffer.data() != nullptr) continue;
    const bool of_inputs = float8_ && &buffer == &resources_.decoded[kMainQueue];
    FULMAR_ASSIGN(buffer, allocate_device(of_inputs ? kFloat8Bytes : kDecodedBytes));
  }
  return {};
}

void GemmDispatcher::fork() {
  FULMAR_GPU(cudaEventRecord(fork_, main_.stream));
  for (const Queue& side : side_) FULMAR_GPU(cudaStreamWaitEvent(side.stream, fork_, 0));
  forked_ = true;
}

Queue GemmDispatcher::join() {
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

void GemmDispatcher::run_row(std::span<const Gemv> products, const RowNorm& norm) {
  const ByFormat<Gemv> formats(products);
  const auto run = [&](std::span<const Gemv> alike, const LaunchShare& share) {
    if (!alike.front().weight.plain16()) return launch_skinny_q(main_, alike, share);
    launch_gemv(main_, alike, share, norm);
  };
  if (formats.count() == 2 && main_.overlap && !formats[0].front().weight.plain16()) {
    const SkinnyPair pair = plan_skinny_pair(tile_stream(formats[0]), tile_stream(formats[1]),
                                             whole_gpu(resources_.device).blocks);
    if (pair.first > 0) {
      run(formats[0], {pair.first, LaunchPlace::first});
      return run(formats[1], {pair.second, LaunchPlace::second});
    }
  }
  for (size_t i = 0; i < formats.count(); i++) run(formats[i], whole_gpu(resources_.device));
}

bool GemmDispatcher::suits_lone_row(const Weight& weight) {
  return suits_gemv(weight) || suits_skinny_q(weight, 1);
}

void GemmDispatcher::add_lone_value(Tensor in, const Weight& weight, Tensor out) {
  if (weight.by_input()) return run_sparse_q(resources_, main_, {in, weight, out});
  const Gemv whole[] = {{{in, {}}, weight, {out, {}}, Epilogue::none, true}};
  run_row(whole);
}

bool GemmDispatcher::suits_lone_value(const Weight& weight) {
  if (!weight.by_input()) return suits_skinny_q(weight, 1);
  return suits_packing_transposed(weight.dtype, weight.out, weight.in, weight.group);
}

bool GemmDispatcher::makes_inputs(std::span<const Gemv> products) const {
  const bool plain =
      std::all_of(products.begin(), products.end(), [](const Gemv& one) { return one.weight.plain16(); });
  return plain && suits_made_inputs(products, whole_gpu(resources_.device).blocks);
}

}  // namespace fulmar::gpu
