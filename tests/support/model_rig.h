// Loaded models in tests: feeding packed sequences, greedy continuation, and the same weights for the oracle.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "files/synthetic.h"
#include "model/model.h"
#include "model/state_pool.h"
#include "support/reference.h"
#include "support/shared_files.h"

namespace fulmar::support {

// Three layers over 96 tokens.
inline SyntheticSpec small_spec(int version, int64_t n_head, int64_t head_size, DType dtype = DType::f32) {
  SyntheticSpec spec;
  spec.version = version;
  spec.n_layer = 3;
  spec.n_head = n_head;
  spec.head_size = head_size;
  spec.vocab = 96;
  spec.n_ffn = n_head * head_size * 2;
  spec.rank_w = spec.rank_a = 16;
  spec.rank_v = 8;
  spec.rank_g = 24;
  spec.rank_mix = 8;
  spec.rank_decay = 16;
  spec.dtype = dtype;
  return spec;
}

// The numbers of a checkpoint, widened.
NamedTensors named_tensors(const Checkpoint& checkpoint);

// Tokens below `vocab`, the same for equal seeds.
std::vector<int32_t> random_tokens(size_t count, uint32_t seed, int32_t vocab = 96);

// Of a tuned state: the same numbers each time, [layer][channel, head channel].
std::vector<std::vector<float>> made_up_state(const StateLayout& layout);

struct Feed {
  int64_t slot = 0;
  std::vector<int32_t> tokens;
  bool revocable = false;  // all rows but the first may be rolled back
  SequenceDeltas deltas = {};
};

class ModelRig {
 public:
  // Fails the running test when the model does not load.
  ModelRig(std::unique_ptr<Checkpoint> checkpoint, Ops& ops, int64_t slots = 4, LoadOptions options = {});

  // The same as a pipeline of such stages.
  ModelRig(std::unique_ptr<Checkpoint> checkpoint, std::span<const Placed> stages, int64_t slots = 4,
           const LoadOptions& options = {});

  // One step of packed sequences; the logits after the last token of each, after every token of revocable
  // ones.
  std::vector<std::vector<float>> step(const std::vector<Feed>& feeds);
  // Feeds tokens in steps of at most `chunk`; the logits after the last.
  std::vector<float> feed(int64_t slot, const std::vector<int32_t>& tokens, int64_t chunk = 1 << 20);
  // Feeds the prompt to a zero state, then draws greedily until `stop` (which is kept) or `limit` tokens.
  std::vector<int32_t> greedy(int64_t slot, const std::vector<int32_t>& prompt, size_t limit,
                              int32_t stop = -1);
  // Copies an adapter to the model's devices; null, failing the test, where that fails.
  std::unique_ptr<DeviceAdapter> adapt(std::span<const HostDelta> deltas);
  void roll_back(int64_t slot, int64_t rows) { pool_->roll_back(slot, rows); }
  // A part of a slot's state.
  std::vector<double> state_part(int64_t slot, size_t offset, int64_t count);

  bool loaded() const { return model_ != nullptr; }
  Model& model() { return *model_; }
  StatePool& pool() { return *pool_; }

 private:
  void take(Result<std::unique_ptr<Model>> model, int64_t slots);

  std::unique_ptr<Model> model_;
  std::unique_ptr<StatePool> pool_;
};

using Devices = std::vector<std::unique_ptr<Ops>>;

// CPUs of one thread each.
Devices cpu_devices(size_t count, const StateWrites& writes = {});

// Layers [0, ends[0]), [ends[0], ends[1]), ... of a model on devices of their own.
std::vector<Placed> placed_on(std::span<const std::unique_ptr<Ops>> devices, std::span<const int64_t> ends);

// The same, each stage's layers shared by so many devices that follow one another.
std::vector<Placed> sliced_on(std::span<const std::unique_ptr<Ops>> devices, std::span<const int64_t> ends,
                              int64_t slices);

int32_t argmax(const std::vector<float>& logits);  // the lowest of equals
double max_difference(const std::vector<float>& got, const std::vector<double>& want);
double max_difference(const std::vector<float>& got, const std::vector<float>& want);
// Root mean square of the differences over the standard deviation of `want`; infinity where one is no number.
double relative_error(const std::vector<float>& got, const std::vector<double>& want);
double relative_error(const std::vector<float>& got, const std::vector<float>& want);

}  // namespace fulmar::support
