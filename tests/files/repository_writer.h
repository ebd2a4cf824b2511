// Writes a model as a hub's repository: config.json, one file or several shards with their index.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "files/converted.h"
#include "files/safetensors.h"
#include "support/temp_folder.h"

namespace fulmar::test {

struct RepositoryForm {
  std::string prefix = "model.";  // of all names but the head's
  std::string embedding = "embeddings.weight";
  size_t shards = 3;
  bool index = true;
  bool first_values = false;  // keeps att.v0, v1 and v2 of block 0 where the model has them
  bool fused = false;         // the model has no ln0
  std::string config;         // in place of the usual config.json
};

inline std::string shard_name_of(size_t number, size_t total) {
  if (total == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", number, total);
  return name;
}

inline std::string index_of(const std::map<std::string, std::string>& shard_of) {
  std::string text = "{\"metadata\":{\"total_size\":1},\"weight_map\":{";
  for (const auto& [tensor, shard] : shard_of) text += "\"" + tensor + "\":\"" + shard + "\",";
  text.back() = '}';
  return text + "}";
}

inline std::string config_of(const Checkpoint& official, bool fused) {
  const StoredTensor& emb = *official.find("emb.weight");
  int64_t layers = 0;
  while (official.find("blocks." + std::to_string(layers) + ".ln1.weight") != nullptr) layers++;
  return "{\"architectures\":[\"Rwkv7ForCausalLM\"],\"model_type\":\"rwkv7\",\"hidden_size\":" +
         std::to_string(emb.shape[1]) + ",\"num_hidden_layers\":" + std::to_string(layers) +
         ",\"vocab_size\":" + std::to_string(emb.shape[0]) +
         ",\"embedding_layer_norm_fused\":" + (fused ? "true" : "false") + "}";
}

// The tensors of `converted` over `shards` files in turn, and the index; what each tensor's shard is.
inline std::map<std::string, std::string> write_shards(const TempFolder& folder, const Converted& converted,
                                                       size_t shards, bool index) {
  std::map<std::string, std::string> shard_of;
  for (size_t i = 0; i < shards; i++) {
    std::vector<StoredTensor> part;
    for (size_t t = i; t < converted.tensors.size(); t += shards) {
      part.push_back(converted.tensors[t]);
      shard_of[part.back().name] = shard_name_of(i + 1, shards);
    }
    EXPECT_TRUE(
        write_safetensors(folder.path() / shard_name_of(i + 1, shards), part, {{"format", "pt"}}).ok());
  }
  if (index) folder.write("model.safetensors.index.json", index_of(shard_of));
  return shard_of;
}

// A model with official names as an official repository. With `fused` the model's embedding is normed
// already.
inline std::map<std::string, std::string> write_repository(const TempFolder& folder,
                                                           const Checkpoint& official,
                                                           const RepositoryForm& form) {
  Converted converted = as_body(official, form.prefix, form.embedding);
  std::erase_if(converted.tensors, [&](const StoredTensor& tensor) {
    const bool first_value = tensor.name.find("blocks.0.att.v") != std::string::npos &&
                             tensor.name.find("value") == std::string::npos;
    const bool norm = tensor.name.find("blocks.0.ln0.") != std::string::npos;
    return (first_value && !form.first_values) || (norm && form.fused);
  });
  folder.write("config.json", form.config.empty() ? config_of(official, form.fused) : form.config);
  return write_shards(folder, converted, form.shards, form.index);
}

}  // namespace fulmar::test
