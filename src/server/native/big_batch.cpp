// Only temperature and noise shape the draw here; every other sampling field is ignored.
#include "server/native/big_batch.h"

#include "server/native/native_batch.h"

namespace fulmar {
namespace {

constexpr GenerationDefaults kBigBatchDefaults{.max_tokens = 8192,
                                               .temperature = 1.0,
                                               .top_k = 0,
                                               .top_p = 1.0,
                                               .presence = 0.0,
                                               .frequency = 0.0,
                                               .decay = 0.996,
                                               .stops = DefaultStops::turn,
                                               .chunk_size = 4,
                                               .stream = true};

void use_noise(Fields& fields, Generation& generation) {
  SamplingParams plain;
  plain.temperature = generation.sampling.temperature;
  plain.seed = generation.sampling.seed;
  plain.banned = std::move(generation.sampling.banned);
  plain.noise = NoiseKind::gumbel;
  if (const auto noise = fields.number(kNoiseFields["noise"])) {
    plain.noise = NoiseKind::uniform;
    plain.noise_scale = static_cast<float>(*noise);
  }
  generation.sampling = std::move(plain);
}

}  // namespace

void big_batch(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const auto contents = fields.texts(kContentsFields["contents"]);
  submit_native(
      std::move(call), fields,
      {.defaults = kBigBatchDefaults, .endpoint = "big_batch.completions", .empty_text = "contents is empty"},
      contents, use_noise);
}

}  // namespace fulmar
