#include "support/golden.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "files/synthetic.h"

namespace fulmar::support {

namespace {

SyntheticSpec spec_of(const Json& golden) {
  const Json& recipe = golden["recipe"];
  const Json& ranks = recipe["ranks"];
  SyntheticSpec spec;
  spec.version = recipe["version"];
  spec.n_layer = recipe["n_layer"];
  spec.n_head = recipe["n_head"];
  spec.head_size = recipe["head_size"];
  spec.vocab = recipe["vocab"];
  spec.n_ffn = golden["config"]["n_ffn"];
  if (spec.version == 7) {
    spec.rank_w = ranks[0];
    spec.rank_a = ranks[1];
    spec.rank_v = ranks[2];
    spec.rank_g = ranks[3];
    spec.deep_embed_rank = recipe.value("deep_embed", 0);
  } else {
    spec.rank_mix = ranks[0];
    spec.rank_decay = ranks[1];
  }
  spec.time_state = golden.contains("time_state") && !golden["time_state"].is_null();
  return spec;
}

}  // namespace

std::unique_ptr<Checkpoint> golden_checkpoint(const Json& golden) {
  if (golden.contains("recipe")) return synthetic_checkpoint(spec_of(golden));
  auto opened = open_checkpoint(shared_folder() / "models" / golden["model"].get<std::string>());
  if (opened.ok()) return std::move(opened).value();
  ADD_FAILURE() << opened.error().text;
  return nullptr;
}

std::unique_ptr<Checkpoint> stored_gguf(const Json& golden) {
  const Json& file = golden.contains("files") ? golden["files"][0]["file"] : golden["file"];
  auto opened = open_checkpoint(shared_folder() / file.get<std::string>());
  if (opened.ok()) return std::move(opened).value();
  ADD_FAILURE() << opened.error().text;
  return nullptr;
}

std::string parameter_name(std::string_view name) {
  std::string allowed(name);
  std::replace(allowed.begin(), allowed.end(), '-', '_');
  return allowed;
}

std::vector<std::vector<float>> time_states(const Checkpoint& checkpoint, int64_t n_layer) {
  std::vector<std::vector<float>> out;
  for (int64_t l = 0; l < n_layer; l++) {
    const StoredTensor* tensor = checkpoint.find("blocks." + std::to_string(l) + ".att.time_state");
    if (tensor == nullptr) return {};
    copy_as_f32(*tensor, out.emplace_back(static_cast<size_t>(tensor->count())));
  }
  return out;
}

}  // namespace fulmar::support
