#include "files/gguf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <ostream>

#include "base/check.h"
#include "base/write_file.h"
#include "files/gguf.h"
#include "files/gguf_model.h"
#include "files/gguf_names.h"
#include "tensor/convert.h"

namespace fulmar {
namespace {

constexpr uint32_t kVersion = 3;
constexpr size_t kAlignment = 32;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// ---- the container

template <class T>
void put(std::string& out, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  out.append(raw, sizeof(T));
}

void put_type(std::string& out, GgufType type) { put(out, static_cast<uint32_t>(type)); }

void put_text(std::string& out, const std::string& text) {
  put<uint64_t>(out, text.size());
  out += text;
}

struct PutValue {
  std::string& out;

  void operator()(uint32_t value) const { put_type(out, GgufType::u32), put(out, value); }
  void operator()(float value) const { put_type(out, GgufType::f32), put(out, value); }
  void operator()(const std::string& value) const { put_type(out, GgufType::string), put_text(out, value); }
  void operator()(const std::vector<std::string>& values) const {
    put_array(GgufType::string, values.size());
    for (const std::string& value : values) put_text(out, value);
  }
  void operator()(const std::vector<int32_t>& values) const {
    put_array(GgufType::i32, values.size());
    for (const int32_t value : values) put(out, value);
  }

 private:
  void put_array(GgufType type, uint64_t count) const {
    put_type(out, GgufType::array);
    put_type(out, type);
    put(out, count);
  }
};

size_t bytes_of(const GgufTensor& tensor) {
  const int64_t count =
      std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
  return bytes_for(tensor.dtype, count);
}

std::string header_of(std::span<const GgufKey> keys, std::span<const GgufTensor> tensors) {
  std::string out = "GGUF";
  put(out, kVersion);
  put<uint64_t>(out, tensors.size());
  put<uint64_t>(out, keys.size());
  for (const GgufKey& key : keys) {
    put_text(out, key.name);
    std::visit(PutValue{out}, key.value);
  }
  uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    put_text(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) {
      put(out, static_cast<uint64_t>(*size));
    }
    put(out, gguf_type_of(tensor.dtype).value());
    put(out, offset);
    offset += aligned(bytes_of(tensor));
  }
  out.resize(aligned(out.size()), '\0');
  return out;
}

// ---- a model

std::vector<std::byte> as_f32(const StoredTensor& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.count()) * sizeof(float));
  copy_as_f32(tensor, {reinterpret_cast<float*>(bytes.data()), static_cast<size_t>(tensor.count())});
  return bytes;
}

StoredTensor transposed(StoredTensor tensor) {
  std::swap(tensor.shape.end()[-1], tensor.shape.end()[-2]);
  std::swap(tensor.strides.end()[-1], tensor.strides.end()[-2]);
  return tensor;
}

// Decodes codes with separate scales, which no GGUF type has, to f16.
std::vector<std::byte> as_f16(const StoredTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  copy_as_f32(tensor, values);
  std::vector<std::byte> halves(values.size() * size_of(DType::f16));
  from_f32(values, DType::f16, halves.data());
  return halves;
}

// Returns whether a tensor of two or more dimensions is f32 in every file that llama.cpp makes.
bool always_f32(std::string_view gguf) {
  constexpr std::string_view kEndings[] = {".time_mix_first.weight", ".time_mix_w1.weight",
                                           ".time_mix_w2.weight", ".time_mix_decay_w1.weight",
                                           ".time_mix_decay_w2.weight"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](auto ending) { return gguf.ends_with(ending); });
}

Result<GgufTensor> tensor_of(const StoredTensor& stored, std::string gguf, int version) {
  const GgufPart part = official_name(gguf, version).part;
  const bool matrix = part == GgufPart::matrix || part == GgufPart::rescaled_matrix;
  GgufTensor tensor{std::move(gguf), DType::f32, {}, {}};
  if (matrix && stored.scales != nullptr) {
    tensor.dtype = DType::f16;
    tensor.shape = stored.shape;
    tensor.bytes = [&stored] { return as_f16(stored); };
    return tensor;
  }
  if (matrix) {
    if (!gguf_type_of(stored.dtype)) {
      return Error{ErrorKind::unsupported, fmt::format("tensor '{}' is {}, which GGUF files cannot hold",
                                                       stored.name, name_of(stored.dtype))};
    }
    tensor.dtype = stored.dtype;
    tensor.shape = stored.shape;
    tensor.bytes = [&stored] {
      if (!stored.contiguous()) return gather_contiguous(stored);
      return std::vector<std::byte>(stored.data, stored.data + stored.bytes());
    };
    return tensor;
  }
  const StoredTensor placed = part == GgufPart::transposed ? transposed(stored) : stored;
  if (part == GgufPart::transposed && !always_f32(tensor.name) && is_kernel_float(stored.dtype)) {
    tensor.dtype = stored.dtype;
    tensor.shape = placed.shape;
    tensor.bytes = [placed] { return gather_contiguous(placed); };
    return tensor;
  }
  const bool keeps_axes = part == GgufPart::transposed || tensor.name.ends_with(".time_mix_first.weight");
  tensor.shape = keeps_axes ? placed.shape : std::vector<int64_t>{stored.count()};
  tensor.bytes = [placed] { return as_f32(placed); };
  return tensor;
}

// Makes time_mix_lerp_fused of one block.
Result<GgufTensor> mixes_of(const Checkpoint& checkpoint, const ModelConfig& config, int64_t layer) {
  std::vector<const StoredTensor*> mixes;
  for (const std::string_view name : mix_names(config.version)) {
    mixes.push_back(checkpoint.find(fmt::format("blocks.{}.{}", layer, name)));
    FULMAR_CHECK(mixes.back() != nullptr, "identify has passed the model");
  }
  const auto count = static_cast<int64_t>(mixes.size());
  return GgufTensor{fmt::format("blk.{}.time_mix_lerp_fused.weight", layer),
                    DType::f32,
                    {count, 1, 1, config.n_embd},
                    [mixes] {
                      std::vector<std::byte> all;
                      for (const StoredTensor* mix : mixes) {
                        const std::vector<std::byte> one = as_f32(*mix);
                        all.insert(all.end(), one.begin(), one.end());
                      }
                      return all;
                    }};
}

uint32_t u32(int64_t value) { return static_cast<uint32_t>(value); }

std::vector<GgufKey> size_keys(const ModelConfig& config, const std::string& name) {
  const std::string a = fmt::format("rwkv{}.", config.version);
  std::vector<GgufKey> keys = {{"general.architecture", architecture_of(config.version)},
                               {"general.type", std::string("model")},
                               {"general.name", name},
                               {a + "context_length", uint32_t{1048576}},
                               {a + "embedding_length", u32(config.n_embd)},
                               {a + "block_count", u32(config.n_layer)},
                               {a + "attention.layer_norm_epsilon", 1e-5f},
                               {a + "wkv.head_size", u32(config.head_size)},
                               {a + "feed_forward_length", u32(config.n_ffn)},
                               {a + "attention.head_count", uint32_t{0}},
                               {"general.quantization_version", uint32_t{2}}};
  const Version& version = version_of(config.version);
  if (version.rescales) keys.push_back({a + "rescale_every_n_layers", uint32_t{0}});
  for (const RankSize& rank : version.ranks) {
    keys.push_back({a + std::string(rank.gguf_key), u32(config.*rank.size)});
  }
  return keys;
}

void add_vocabulary(const StoredVocabulary* vocabulary, const ModelConfig& config,
                    std::vector<GgufKey>& keys) {
  constexpr int32_t kNormal = 1, kControl = 3, kUnused = 5;
  if (vocabulary == nullptr) {
    keys.push_back({"tokenizer.ggml.model", std::string("none")});
    keys.push_back({fmt::format("rwkv{}.vocab_size", config.version), u32(config.vocab)});
    return;
  }
  std::vector<std::string> texts(static_cast<size_t>(config.vocab));
  std::vector<int32_t> types(texts.size(), kUnused);
  for (size_t i = 0; i < texts.size(); i++) texts[i] = fmt::format("[PAD{}]", i);
  texts[0] = "<s>";
  types[0] = kControl;
  std::optional<uint32_t> pause;
  for (const StoredToken& token : *vocabulary) {
    const auto id = static_cast<size_t>(token.id);
    if (token.id < 0 || id >= texts.size()) continue;
    texts[id] = escape_token(token.bytes);
    types[id] = kNormal;
    if (token.bytes == "\n\n") pause = static_cast<uint32_t>(id);
  }
  const bool has_end = types[0] == kControl;
  keys.push_back({"tokenizer.ggml.model", std::string("rwkv")});
  keys.push_back({"tokenizer.ggml.tokens", std::move(texts)});
  keys.push_back({"tokenizer.ggml.token_type", std::move(types)});
  if (!has_end) return;
  keys.push_back({"tokenizer.ggml.bos_token_id", uint32_t{0}});
  keys.push_back({"tokenizer.ggml.eos_token_id", uint32_t{0}});
  if (!pause) return;
  keys.push_back({"tokenizer.ggml.eot_token_id", *pause});
  keys.push_back({"tokenizer.chat_template", std::string("rwkv-world")});
}

}  // namespace

Status write_gguf(const std::filesystem::path& path, std::span<const GgufKey> keys,
                  std::span<const GgufTensor> tensors, const std::function<void(double)>& progress) {
  return write_whole_file(path, [&](std::ostream& file) {
    const std::string header = header_of(keys, tensors);
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
    size_t done = 0;
    for (const GgufTensor& tensor : tensors) {
      std::vector<std::byte> bytes = tensor.bytes();
      FULMAR_CHECK(bytes.size() == bytes_of(tensor));
      bytes.resize(aligned(bytes.size()), std::byte{0});
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      if (progress) progress(static_cast<double>(++done) / static_cast<double>(tensors.size()));
    }
  });
}

Result<GgufModel> gguf_of(const Checkpoint& checkpoint, const ModelConfig& config,
                          const GgufModelOptions& options) {
  GgufModel model;
  model.keys = size_keys(config, options.name);
  add_vocabulary(options.vocabulary, config, model.keys);
  for (const StoredTensor& stored : checkpoint.tensors()) {
    const ModelTensor* known = model_tensor(stored.name, config.version);
    if (known != nullptr && known->part == GgufPart::mix) continue;
    const std::optional<std::string> gguf = gguf_name(stored.name, config.version);
    if (!gguf && (known != nullptr || stored.name.starts_with("blocks."))) {
      return Error{
          ErrorKind::unsupported,
          fmt::format("tensor '{}' has no name in GGUF files; another format holds it", stored.name)};
    }
    if (!gguf || official_name(*gguf, config.version).part == GgufPart::unused) continue;
    FULMAR_ASSIGN(GgufTensor tensor, tensor_of(stored, *gguf, config.version));
    const std::string copied = "blk.0.time_mix_a";
    if (tensor.name.starts_with(copied) && tensor.name.size() == copied.size() + 8) {
      GgufTensor copy = tensor;
      copy.name[copied.size() - 1] = 'v';
      model.tensors.push_back(std::move(copy));
    }
    model.tensors.push_back(std::move(tensor));
  }
  for (int64_t layer = 0; layer < config.n_layer; layer++) {
    FULMAR_ASSIGN(GgufTensor mixes, mixes_of(checkpoint, config, layer));
    model.tensors.push_back(std::move(mixes));
  }
  return model;
}

}  // namespace fulmar
