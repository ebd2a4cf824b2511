// Uploaded files with tuned initial states, for a model of two layers with one head of two channels, in both
// containers and both orders: finite numbers of the model's shape, or an error.
#include <cmath>

#include "files/checkpoint.h"
#include "files/pth.h"
#include "files/safetensors.h"
#include "files/time_state.h"
#include "fuzz_input.h"

namespace {

using namespace fulmar;

ModelConfig small_model() {
  ModelConfig config;
  config.version = 7;
  config.n_layer = 2;
  config.n_head = 1;
  config.n_embd = config.head_size = 2;
  return config;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteSpan file(reinterpret_cast<const std::byte*>(data), size);
  Result<CheckpointParts> parts = looks_like_pth(file) ? read_pth(file) : read_safetensors(file);
  if (!parts.ok()) return 0;
  const std::unique_ptr<Checkpoint> checkpoint = make_checkpoint(std::move(parts).value());
  const ModelConfig config = small_model();
  for (const TimeStateOrder order : {TimeStateOrder::value_major, TimeStateOrder::key_major}) {
    const Result<TimeState> state = read_time_state(*checkpoint, config, order);
    if (!state.ok()) {
      expect(!state.error().text.empty());
      continue;
    }
    expect(state->size() == 2);
    for (const std::vector<float>& layer : *state) {
      expect(layer.size() == 4);
      for (const float value : layer) expect(std::isfinite(value));
    }
  }
  return 0;
}
