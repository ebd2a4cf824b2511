// Writes GGUF files, version 3: the container, and RWKV-7 and RWKV-6 models under the names, shapes and types
// with which llama.cpp loads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "files/checkpoint.h"
#include "files/model_config.h"

namespace fulmar {

struct GgufKey {
  std::string name;
  std::variant<uint32_t, float, std::string, std::vector<std::string>, std::vector<int32_t>> value;
};

struct GgufTensor {
  std::string name;
  DType dtype = DType::f32;                       // one that GGUF has
  std::vector<int64_t> shape;                     // outermost first
  std::function<std::vector<std::byte>()> bytes;  // made when it is written
};

// Writes a file, which gets its name only when it is complete.
Status write_gguf(const std::filesystem::path& path, std::span<const GgufKey> keys,
                  std::span<const GgufTensor> tensors, const std::function<void(double)>& progress = {});

struct GgufModelOptions {
  std::string name;                              // general.name
  const StoredVocabulary* vocabulary = nullptr;  // null: a file without one
};

// The keys and tensors of a model that `identify` has accepted. Matrices keep their format, except that codes
// with separate scales become f16; other formats that GGUF lacks, and tensors of blocks that it has no name
// for (RWKV-7a's, tuned states), are refused ("unsupported").
// Tensors that llama.cpp wants as f32 are converted; other low-rank factors keep f16 or bf16. Block 0 gets
// copies of a0, a1, a2 as v0, v1, v2, which llama.cpp demands and never reads. The checkpoint must outlive
// the tensors.
struct GgufModel {
  std::vector<GgufKey> keys;
  std::vector<GgufTensor> tensors;
};
Result<GgufModel> gguf_of(const Checkpoint& checkpoint, const ModelConfig& config,
                          const GgufModelOptions& options);

}  // namespace fulmar
