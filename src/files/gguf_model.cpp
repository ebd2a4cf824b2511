#include "files/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>

#include "files/gguf_names.h"
#include "tensor/convert.h"

namespace fulmar {
namespace {

constexpr double kEpsilon = 1e-5, kSameEpsilon = 1e-7;
constexpr int64_t kTokenShift = 2, kMostTokens = int64_t{1} << 20, kMostRescale = 1024;

Error corrupt(std::string text) { return {ErrorKind::corrupt, "GGUF: " + std::move(text)}; }
Error unsupported(std::string text) { return {ErrorKind::unsupported, "GGUF: " + std::move(text)}; }

Result<int> version_in(const GgufFile& file) {
  const auto architecture = file.text("general.architecture");
  const std::string wanted = "wanted '" + each_version("rwkv", "' or '") + "'";
  if (!architecture) return corrupt("general.architecture is missing; " + wanted);
  for (const int version : kVersions) {
    if (*architecture == architecture_of(version)) return version;
  }
  return unsupported(fmt::format("the architecture is '{}'; {}", printable(*architecture), wanted));
}

// The sizes in the metadata, which must agree with the tensors'.
class Sizes {
 public:
  Sizes(const GgufFile& file, int version) : file_(file), prefix_(fmt::format("rwkv{}.", version)) {}

  std::optional<int64_t> find(std::string_view key) const {
    return file_.integer(prefix_ + std::string(key));
  }

  Result<int64_t> wanted(std::string_view key, int64_t most) const {
    const auto value = find(key);
    if (!value || *value < 1 || *value > most) {
      return corrupt(fmt::format("{}{} is {}; wanted 1 to {}", prefix_, key,
                                 value ? std::to_string(*value) : std::string("missing"), most));
    }
    return *value;
  }

  Status agree(std::string_view key, std::string_view tensor, size_t axis) const {
    const auto said = find(key);
    const auto found = std::find_if(file_.tensors.begin(), file_.tensors.end(),
                                    [&](const StoredTensor& t) { return t.name == tensor; });
    if (!said || found == file_.tensors.end() || axis >= found->shape.size()) return {};
    if (found->shape[axis] == *said) return {};
    return corrupt(fmt::format("{}{} is {}, but '{}' has shape {}", prefix_, key, *said, tensor,
                               shape_text(found->shape)));
  }

  Status agree_on_layers(int64_t found) const {
    const auto said = find("block_count");
    if (!said || *said == found) return {};
    return corrupt(fmt::format("{}block_count is {}, but the tensors make {} blocks", prefix_, *said, found));
  }

  Status check_rest() const {
    const auto shift = find("token_shift_count");
    if (shift && *shift != kTokenShift) {
      return unsupported(fmt::format("{}token_shift_count is {}; wanted {}", prefix_, *shift, kTokenShift));
    }
    const auto epsilon = file_.number(prefix_ + "attention.layer_norm_epsilon");
    if (epsilon && std::abs(*epsilon - kEpsilon) > kSameEpsilon) {
      return unsupported(
          fmt::format("{}attention.layer_norm_epsilon is {}; wanted {}", prefix_, *epsilon, kEpsilon));
    }
    return {};
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

int64_t highest_layer(const GgufFile& file, int version) {
  int64_t highest = -1;
  for (const StoredTensor& tensor : file.tensors) {
    highest = std::max(highest, official_name(tensor.name, version).layer);
  }
  return highest;
}

// Turns one file's tensors into official ones.
class Converter {
 public:
  Converter(const GgufFile& file, int version, int64_t head_size, int64_t rescale)
      : file_(file), version_(version), head_size_(head_size), rescale_(rescale) {}

  Status run(CheckpointParts& parts) {
    for (const StoredTensor& stored : file_.tensors) FULMAR_TRY(add(stored));
    parts.tensors = std::move(tensors_);
    parts.owners.insert(parts.owners.end(), owners_.begin(), owners_.end());
    return {};
  }

 private:
  Status add(const StoredTensor& stored) {
    const GgufName name = official_name(stored.name, version_);
    if (name.part == GgufPart::unused) return {};
    StoredTensor tensor = stored;
    tensor.name = name.official;
    const bool matrix = name.part == GgufPart::matrix || name.part == GgufPart::rescaled_matrix;
    if (is_block(tensor.dtype) && !(matrix && tensor.shape.size() == 2)) decode(tensor);
    switch (name.part) {
      case GgufPart::transposed:
        if (tensor.shape.size() < 2) return misshapen(stored);
        std::swap(tensor.shape.end()[-1], tensor.shape.end()[-2]);
        std::swap(tensor.strides.end()[-1], tensor.strides.end()[-2]);
        break;
      case GgufPart::heads:
        FULMAR_TRY(split_heads(stored, tensor));
        break;
      case GgufPart::stacked_mixes:
        return add_mixes(stored, tensor, name.layer);
      case GgufPart::rescaled_matrix:
        if (rescale_ > 0 && name.layer >= rescale_) scale_up(tensor, static_cast<int>(name.layer / rescale_));
        break;
      default:
        break;
    }
    tensors_.push_back(std::move(tensor));
    return {};
  }

  Error misshapen(const StoredTensor& stored) const {
    return corrupt(fmt::format("tensor '{}' has shape {}, which is none of its kind", stored.name,
                               shape_text(stored.shape)));
  }

  // Views a vector of C numbers as [heads, head size].
  Status split_heads(const StoredTensor& stored, StoredTensor& tensor) const {
    const int64_t count = tensor.count();
    if (count % head_size_ != 0) return misshapen(stored);
    tensor.shape = {count / head_size_, head_size_};
    tensor.strides = row_major_strides(tensor.shape);
    return {};
  }

  // Adds the vectors of [mixes, 1, 1, C].
  Status add_mixes(const StoredTensor& stored, const StoredTensor& tensor, int64_t layer) {
    const std::vector<std::string_view> names = mix_names(version_);
    if (tensor.shape.empty() || tensor.shape[0] != static_cast<int64_t>(names.size()))
      return misshapen(stored);
    const int64_t each = tensor.count() / tensor.shape[0];
    for (size_t i = 0; i < names.size(); i++) {
      StoredTensor mix{fmt::format("blocks.{}.{}", layer, names[i]), tensor.dtype, {1, 1, each}, {}, nullptr};
      mix.strides = row_major_strides(mix.shape);
      mix.data = tensor.data + i * bytes_for(tensor.dtype, each);
      tensors_.push_back(std::move(mix));
    }
    return {};
  }

  void decode(StoredTensor& tensor) {
    auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(tensor.count()));
    copy_as_f32(tensor, *values);
    tensor.dtype = DType::f32;
    tensor.data = reinterpret_cast<const std::byte*>(values->data());
    owners_.push_back(std::move(values));
  }

  // Multiplies by a power of two, exact in every format: the numbers, or the f16 factors of blocks.
  void scale_up(StoredTensor& tensor, int power) {
    auto bytes = std::make_shared<std::vector<std::byte>>(tensor.data, tensor.data + tensor.bytes());
    const Format& format = format_of(tensor.dtype);
    const DType number = is_block(tensor.dtype) ? DType::f16 : tensor.dtype;
    const auto multiply = [&](std::byte* at) {
      float value = 0;
      to_f32(number, at, {&value, 1});
      value = std::ldexp(value, power);
      from_f32({&value, 1}, number, at);
    };
    for (size_t at = 0; at < bytes->size(); at += static_cast<size_t>(format.bytes)) {
      if (!is_block(tensor.dtype)) {
        multiply(bytes->data() + at);
        continue;
      }
      for (const int factor : format.factors) {
        if (factor >= 0) multiply(bytes->data() + at + factor);
      }
    }
    tensor.data = bytes->data();
    owners_.push_back(std::move(bytes));
  }

  const GgufFile& file_;
  const int version_;
  const int64_t head_size_, rescale_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::shared_ptr<const void>> owners_;
};

// ---- vocabulary

constexpr int64_t kNormal = 1, kUserDefined = 4, kByte = 6;

Result<std::shared_ptr<const StoredVocabulary>> read_vocabulary(const GgufFile& file) {
  const auto model = file.text("tokenizer.ggml.model");
  const GgufArray* tokens = file.array("tokenizer.ggml.tokens");
  if (!model || *model == "none" || tokens == nullptr) return std::shared_ptr<const StoredVocabulary>();
  if (*model != "rwkv") {
    return unsupported(fmt::format("tokenizer.ggml.model is '{}'; wanted 'rwkv'", printable(*model)));
  }
  if (tokens->type != GgufType::string || tokens->count > static_cast<uint64_t>(kMostTokens)) {
    return corrupt(fmt::format("tokenizer.ggml.tokens has {} elements; wanted at most {} texts",
                               tokens->count, kMostTokens));
  }
  std::vector<int64_t> types(tokens->count, kNormal);
  if (const GgufArray* stored = file.array("tokenizer.ggml.token_type")) {
    types = integers_of(*stored);
    if (types.size() != tokens->count) {
      return corrupt(fmt::format("{} tokens, but {} token types", tokens->count, types.size()));
    }
  }
  auto vocabulary = std::make_shared<StoredVocabulary>();
  std::set<std::string> seen;
  int32_t id = 0;
  for (const std::string_view text : strings_of(*tokens)) {
    const int64_t type = types[static_cast<size_t>(id)];
    std::string bytes = unescape_token(text);
    if ((type == kNormal || type == kUserDefined || type == kByte) && !bytes.empty()) {
      if (!seen.insert(bytes).second)
        return corrupt(fmt::format("token '{}' stands there twice", printable(text)));
      vocabulary->push_back({id, std::move(bytes)});
    }
    id++;
  }
  return std::shared_ptr<const StoredVocabulary>(std::move(vocabulary));
}

}  // namespace

std::string unescape_token(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char what = text[++i];
    if (what == 'x' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      out += what == 't' ? '\t' : what == 'n' ? '\n' : what == 'r' ? '\r' : what;
    }
  }
  return out;
}

std::string escape_token(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '\\':
        out += "\\\\";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        out += byte < 0x20 || byte >= 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
    }
  }
  return out;
}

Result<CheckpointParts> gguf_model(const GgufFile& file) {
  FULMAR_ASSIGN(const int version, version_in(file));
  const Sizes sizes(file, version);
  FULMAR_ASSIGN(const int64_t head_size, sizes.wanted("wkv.head_size", INT64_C(1) << 20));
  const int64_t rescale = sizes.find("rescale_every_n_layers").value_or(0);
  if (rescale < 0 || rescale > kMostRescale) {
    return corrupt(fmt::format("rescale_every_n_layers is {}; wanted 0 to {}", rescale, kMostRescale));
  }
  FULMAR_TRY(sizes.check_rest());
  FULMAR_TRY(sizes.agree("embedding_length", "token_embd.weight", 1));
  FULMAR_TRY(sizes.agree("feed_forward_length", "blk.0.channel_mix_key.weight", 0));
  CheckpointParts parts;
  FULMAR_TRY(Converter(file, version, head_size, rescale).run(parts));
  FULMAR_TRY(sizes.agree_on_layers(highest_layer(file, version) + 1));
  FULMAR_ASSIGN(parts.vocabulary, read_vocabulary(file));
  for (const char* key : {"general.name", "general.architecture", "tokenizer.chat_template"}) {
    if (const auto text = file.text(key)) parts.metadata.emplace(key, *text);
  }
  return parts;
}

Result<int64_t> split_count(const GgufFile& file) {
  const int64_t count = file.integer("split.count").value_or(1);
  if (count >= 1 && count <= 99999) return count;
  return corrupt(fmt::format("split.count is {}; wanted 1 to 99999", count));
}

Result<std::vector<std::filesystem::path>> split_paths(const std::filesystem::path& first, int64_t count) {
  const std::string name = first.filename().string();
  const std::string ending = fmt::format("-00001-of-{:05}.gguf", count);
  if (!name.ends_with(ending)) {
    return corrupt(
        fmt::format("the file is one of {} parts; wanted the first, whose name ends in '{}'", count, ending));
  }
  std::vector<std::filesystem::path> paths;
  const std::string stem = name.substr(0, name.size() - ending.size());
  for (int64_t i = 1; i <= count; i++) {
    paths.push_back(first.parent_path() / fmt::format("{}-{:05}-of-{:05}.gguf", stem, i, count));
  }
  return paths;
}

Status join_split(GgufFile& whole, const GgufFile& part, int64_t index) {
  const auto number = part.integer("split.no"), count = part.integer("split.count");
  if (number != index || (count && count != whole.integer("split.count"))) {
    return corrupt(fmt::format("part {} says that it is part {} of {}; wanted {} of {}", index + 1,
                               number.value_or(-1) + 1, count.value_or(0), index + 1,
                               whole.integer("split.count").value_or(0)));
  }
  if (index == 0) return {};
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : whole.tensors) names.insert(tensor.name);
  for (const StoredTensor& tensor : part.tensors) {
    if (names.contains(tensor.name)) {
      return corrupt(
          fmt::format("tensor '{}' stands in part {} and in one before it", tensor.name, index + 1));
    }
  }
  whole.tensors.insert(whole.tensors.end(), part.tensors.begin(), part.tensors.end());
  return {};
}

Status check_split_total(const GgufFile& whole) {
  const auto total = whole.integer("split.tensors.count");
  if (!total || *total == static_cast<int64_t>(whole.tensors.size())) return {};
  return corrupt(
      fmt::format("the parts hold {} tensors; split.tensors.count is {}", whole.tensors.size(), *total));
}

}  // namespace fulmar
