// A server over an engine on the CPU whose model takes adapters.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cpu/cpu_ops.h"
#include "engine/engine.h"
#include "files/identify.h"
#include "files/synthetic.h"
#include "model/model.h"
#include "server/adapters/adapter_registry.h"
#include "server/server_rig.h"
#include "server/small_model.h"

namespace fulmar::testing {

inline std::unique_ptr<Checkpoint> tiny_checkpoint() {
  SyntheticSpec spec{.version = 7, .n_layer = 2, .n_head = 2, .head_size = 32, .vocab = 256};
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = 8;
  return synthetic_checkpoint(spec);
}

// A LoRA of rank 2 on matrices of the first block, with alpha / r = 2. Another seed changes other things.
inline Adapter small_adapter(const BaseShapes& base, uint32_t seed) {
  Adapter adapter;
  uint32_t state = seed;
  const auto numbers = [&](int64_t count, float most) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) {
      state = state * 1664525U + 1013904223U;
      value = most * (static_cast<float>(state >> 8) / 8388608.0F - 1);
    }
    return values;
  };
  for (const char* name : {"blocks.0.att.receptance.weight", "blocks.0.att.value.weight",
                           "blocks.0.ffn.key.weight", "blocks.0.ffn.value.weight"}) {
    const auto shape = linear_of(base, name);
    EXPECT_TRUE(shape.ok()) << name;
    Delta delta{.weight = name, .kind = DeltaKind::low_rank, .scale = 2};
    delta.a = host_tensor(numbers(2 * shape->in, 0.5F), {2, shape->in}, DType::f32);
    delta.b = host_tensor(numbers(2 * shape->out, 0.5F), {shape->out, 2}, DType::f32);
    adapter.deltas.push_back(std::move(delta));
  }
  adapter.content_version = digest_of(adapter);
  return adapter;
}

class AdaptedRig {
 public:
  AdaptedRig(std::unique_ptr<Checkpoint> checkpoint, const Tokenizer& tokenizer, int64_t max_tokens)
      : ops_(make_cpu_ops({.threads = 1})) {
    const auto config = identify(*checkpoint);
    EXPECT_TRUE(config.ok());
    shapes_ = base_shapes(*checkpoint, *config);
    auto loaded = Model::load(std::move(checkpoint), *ops_, {.max_rows = 64});
    EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().text);
    model_ = std::move(*loaded);
    const EngineOptions options{.slots = 4, .prefill_chunk = 16};
    auto engine = Engine::start(*model_, tokenizer, options, nullptr);
    EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().text);
    engine_ = std::move(*engine);
    const auto facts = small_model(*engine_, tokenizer);
    facts->vocabulary = config->vocab;
    facts->adapters = std::make_shared<AdapterShelf>(*engine_, AdapterBase{shapes_, {}, {}});
    models_.add(facts);
    ServerOptions server{.port = 0};
    server.limits.max_tokens = max_tokens;
    auto started = Server::start(server, models_);
    EXPECT_TRUE(started.ok()) << (started.ok() ? "" : started.error().text);
    server_ = std::move(*started);
  }

  // Returns the version.
  std::string add(const std::string& id, Adapter adapter) {
    const Status fits = fit_adapter(adapter, shapes_);
    EXPECT_TRUE(fits.ok()) << (fits.ok() ? "" : fits.error().text);
    const auto added = server_->adapters().add({.id = id, .parcel = {std::move(adapter), {}}});
    const auto* fault = std::get_if<ApiError>(&added);
    EXPECT_FALSE(fault) << (fault ? fault->text : "");
    return fault ? std::string() : std::get<std::string>(added);
  }

  Reply send(const std::string& method, const std::string& path, std::string body) const {
    const auto response = fetch(method, "http://" + server_->address() + path, {}, std::move(body));
    EXPECT_TRUE(response.ok()) << path;
    return response.ok() ? Reply{response->status, response->headers, response->body, {}} : Reply();
  }
  Reply post(std::string_view path, std::string body) const {
    return send("POST", std::string(path), std::move(body));
  }
  const BaseShapes& shapes() const { return shapes_; }

 private:
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Engine> engine_;
  ModelRegistry models_;  // its model's shelf goes before the engine
  BaseShapes shapes_;
  std::unique_ptr<Server> server_;
};

}  // namespace fulmar::testing
