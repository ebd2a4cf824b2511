#include "support/model_rig.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "cpu/cpu_ops.h"
#include "tensor/convert.h"

namespace fulmar::support {

NamedTensors named_tensors(const Checkpoint& checkpoint) {
  NamedTensors out;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    std::vector<float> values(static_cast<size_t>(tensor.count()));
    copy_as_f32(tensor, values);
    out[tensor.name] = {tensor.shape, std::vector<double>(values.begin(), values.end())};
  }
  return out;
}

std::vector<std::vector<float>> made_up_state(const StateLayout& layout) {
  std::vector<std::vector<float>> layers(static_cast<size_t>(layout.n_layer));
  float next = 0;
  for (auto& layer : layers) {
    layer.resize(static_cast<size_t>(layout.n_embd * layout.head_size));
    for (float& value : layer) value = std::sin(next += 1.0f);
  }
  return layers;
}

std::vector<int32_t> random_tokens(size_t count, uint32_t seed, int32_t vocab) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab));
  return tokens;
}

Devices cpu_devices(size_t count, const StateWrites& writes) {
  Devices devices;
  for (size_t i = 0; i < count; i++) devices.push_back(make_cpu_ops({.threads = 1, .state_writes = writes}));
  return devices;
}

ModelRig::ModelRig(std::unique_ptr<Checkpoint> checkpoint, Ops& ops, int64_t slots, LoadOptions options) {
  take(Model::load(std::move(checkpoint), ops, options), slots);
}

ModelRig::ModelRig(std::unique_ptr<Checkpoint> checkpoint, std::span<const Placed> stages, int64_t slots,
                   const LoadOptions& options) {
  take(Model::load(std::move(checkpoint), stages, options), slots);
}

void ModelRig::take(Result<std::unique_ptr<Model>> model, int64_t slots) {
  if (!model.ok()) {
    ADD_FAILURE() << model.error().text;
    return;
  }
  Result<StatePool> pool = (*model)->make_states(slots);
  if (!pool.ok()) {
    ADD_FAILURE() << pool.error().text;
    return;
  }
  model_ = std::move(model).value();
  pool_ = std::make_unique<StatePool>(std::move(pool).value());
}

std::vector<std::vector<float>> ModelRig::step(const std::vector<Feed>& feeds) {
  std::vector<int32_t> token, start{0}, slot, wanted;
  std::vector<uint8_t> revocable;
  std::vector<SequenceDeltas> deltas;
  for (const Feed& feed : feeds) {
    deltas.push_back(feed.deltas);
    token.insert(token.end(), feed.tokens.begin(), feed.tokens.end());
    start.push_back(static_cast<int32_t>(token.size()));
    slot.push_back(static_cast<int32_t>(feed.slot));
    revocable.push_back(feed.revocable ? 1 : 0);
    for (int32_t row = feed.revocable ? start.end()[-2] : start.back() - 1; row < start.back(); row++) {
      wanted.push_back(row);
    }
  }
  const Tensor logits = model_->forward({.token = token,
                                         .start = start,
                                         .slot = slot,
                                         .wanted = wanted,
                                         .revocable = revocable,
                                         .deltas = deltas},
                                        *pool_);
  std::vector<std::vector<float>> out;
  for (int64_t row = 0; row < logits.rows; row++) {
    std::vector<float>& one = out.emplace_back(static_cast<size_t>(logits.cols));
    model_->read(one.data(), logits.row<float>(row), one.size() * sizeof(float));
  }
  return out;
}

std::unique_ptr<DeviceAdapter> ModelRig::adapt(std::span<const HostDelta> deltas) {
  auto adapter = model_->load_adapter(deltas);
  if (adapter.ok()) return std::move(adapter).value();
  ADD_FAILURE() << adapter.error().text;
  return nullptr;
}

std::vector<float> ModelRig::feed(int64_t slot, const std::vector<int32_t>& tokens, int64_t chunk) {
  std::vector<float> logits;
  const auto most = static_cast<size_t>(std::min(chunk, model_->max_rows()));
  for (size_t at = 0; at < tokens.size(); at += most) {
    const auto begin = tokens.begin() + static_cast<ptrdiff_t>(at);
    const auto count = static_cast<ptrdiff_t>(std::min(most, tokens.size() - at));
    logits = step({{slot, {begin, begin + count}}}).front();
  }
  return logits;
}

std::vector<int32_t> ModelRig::greedy(int64_t slot, const std::vector<int32_t>& prompt, size_t limit,
                                      int32_t stop) {
  pool_->zero(slot);
  std::vector<int32_t> out;
  std::vector<float> logits = feed(slot, prompt);
  while (out.size() < limit) {
    out.push_back(argmax(logits));
    if (out.back() == stop || out.size() == limit) break;
    logits = feed(slot, {out.back()});
  }
  return out;
}

std::vector<double> ModelRig::state_part(int64_t slot, size_t offset, int64_t count) {
  const std::vector<std::byte> bytes = pool_->read(slot);
  std::vector<float> values(static_cast<size_t>(count));
  to_f32(DType::f32, bytes.data() + offset, values);
  return {values.begin(), values.end()};
}

std::vector<Placed> placed_on(std::span<const std::unique_ptr<Ops>> devices, std::span<const int64_t> ends) {
  std::vector<Placed> stages;
  int64_t next = 0;
  for (size_t i = 0; i < devices.size(); i++) {
    stages.push_back({devices[i].get(), {next, ends[i]}});
    next = ends[i];
  }
  return stages;
}

std::vector<Placed> sliced_on(std::span<const std::unique_ptr<Ops>> devices, std::span<const int64_t> ends,
                              int64_t slices) {
  std::vector<Placed> placed;
  int64_t next = 0;
  for (size_t i = 0; i < devices.size(); i++) {
    const auto at = static_cast<int64_t>(i);
    const int64_t end = ends[static_cast<size_t>(at / slices)];
    placed.push_back({devices[i].get(), {next, end}, {at % slices, slices}});
    if (at % slices == slices - 1) next = end;
  }
  return placed;
}

int32_t argmax(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double max_difference(const std::vector<float>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < got.size(); i++) {
    const double difference = std::abs(static_cast<double>(got[i]) - want[i]);
    if (std::isnan(difference)) return INFINITY;
    worst = std::max(worst, difference);
  }
  return worst;
}

double max_difference(const std::vector<float>& got, const std::vector<float>& want) {
  return max_difference(got, std::vector<double>(want.begin(), want.end()));
}

double relative_error(const std::vector<float>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return INFINITY;
  double mean = 0, error = 0, spread = 0;
  for (const double x : want) mean += x / static_cast<double>(want.size());
  for (size_t i = 0; i < want.size(); i++) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    spread += (want[i] - mean) * (want[i] - mean);
  }
  return std::isfinite(error) ? std::sqrt(error / spread) : INFINITY;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  return relative_error(got, std::vector<double>(want.begin(), want.end()));
}

}  // namespace fulmar::support
