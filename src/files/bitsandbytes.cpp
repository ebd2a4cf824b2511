#include "files/bitsandbytes.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "tensor/scaled_codes.h"

namespace fulmar {
namespace {

constexpr std::string_view kState = ".quant_state.bitsandbytes__", kAbsmax = ".absmax", kRowScales = ".SCB";
constexpr int64_t kLeastGroup = 32, kMostGroup = 256;  // what kernels take at once

Error corrupt(std::string text) { return {ErrorKind::corrupt, "bitsandbytes: " + std::move(text)}; }

// The description in JSON beside the codes.
struct Description {
  int64_t rows = 0, cols = 0, block = 0;
  std::optional<float> nested_offset;  // the scales are quantised, too
};

Result<int64_t> whole_number(simdjson::dom::element json, const char* field, std::string_view name,
                             int64_t least, int64_t most) {
  int64_t value = 0;
  if (json[field].get(value) == simdjson::SUCCESS && value >= least && value <= most) return value;
  simdjson::dom::element found;
  const bool there = json[field].get(found) == simdjson::SUCCESS;
  return corrupt(fmt::format("{} of '{}' is {}; wanted a whole number from {} to {}", field, name,
                             there ? printable(simdjson::minify(found)) : "missing", least, most));
}

Result<Description> parse_description(std::string_view text, std::string_view name) {
  constexpr size_t kLongest = 4096;
  constexpr int64_t kMostSide = int64_t{1} << 31;
  simdjson::dom::parser parser;
  simdjson::dom::element json;
  if (text.size() > kLongest || parser.parse(simdjson::padded_string(text)).get(json) != simdjson::SUCCESS ||
      !json.is_object()) {
    return corrupt(fmt::format("'{}' is no JSON object of at most {} bytes", name, kLongest));
  }
  std::string_view type;
  if (json["quant_type"].get(type) != simdjson::SUCCESS || type != "nf4") {
    return Error{ErrorKind::unsupported,
                 fmt::format("bitsandbytes: quant_type of '{}' is '{}'; wanted nf4", name, printable(type))};
  }
  Description said;
  FULMAR_ASSIGN(said.block, whole_number(json, "blocksize", name, 32, 4096));
  if (!std::has_single_bit(static_cast<uint64_t>(said.block))) {
    return corrupt(fmt::format("blocksize of '{}' is {}; wanted a power of two", name, said.block));
  }
  simdjson::dom::array shape;
  if (json["shape"].get(shape) != simdjson::SUCCESS || shape.size() != 2) {
    return corrupt(fmt::format("shape of '{}' has not two sides", name));
  }
  for (int64_t* side : {&said.rows, &said.cols}) {
    const simdjson::dom::element element = shape.at(side == &said.rows ? 0 : 1).value();
    if (element.get(*side) != simdjson::SUCCESS || *side < 1 || *side > kMostSide) {
      return corrupt(fmt::format("shape of '{}' is {}; wanted two sides from 1 to {}", name,
                                 printable(simdjson::minify(shape)), kMostSide));
    }
  }
  double offset = 0;
  if (json["nested_offset"].get(offset) != simdjson::SUCCESS) return said;
  if (!std::isfinite(static_cast<float>(offset))) {
    return corrupt(fmt::format("nested_offset of '{}' is {}; wanted a finite number", name, offset));
  }
  FULMAR_TRY(whole_number(json, "nested_blocksize", name, kNestedBlock, kNestedBlock));
  said.nested_offset = static_cast<float>(offset);
  return said;
}

// The tensors of a file by name; those that became part of a matrix are marked.
class Joiner {
 public:
  explicit Joiner(CheckpointParts& parts) : parts_(parts) {
    for (StoredTensor& tensor : parts.tensors) by_name_.emplace(tensor.name, &tensor);
  }

  Status run() {
    for (StoredTensor& tensor : parts_.tensors) {
      const std::string_view name = tensor.name;
      if (const size_t at = name.rfind(kState); at != std::string_view::npos) {
        FULMAR_TRY(join_nf4(tensor, std::string(name.substr(0, at))));
      } else if (name.ends_with(kAbsmax)) {
        FULMAR_TRY(check_described(tensor));
      } else if (name.ends_with(kRowScales)) {
        FULMAR_TRY(join_rows(tensor, std::string(name.substr(0, name.size() - kRowScales.size()))));
      }
    }
    std::erase_if(parts_.tensors, [&](const StoredTensor& tensor) { return used_.contains(tensor.name); });
    return {};
  }

 private:
  // Returns a part of a matrix, which must be contiguous and have `count` numbers.
  Result<StoredTensor*> part(const std::string& name, DType dtype, int64_t count) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return corrupt(fmt::format("'{}' is missing", name));
    StoredTensor& tensor = *found->second;
    if (tensor.dtype != dtype || tensor.count() != count || !tensor.contiguous()) {
      return corrupt(fmt::format("'{}' holds {} {}; wanted {} {}", name, tensor.count(),
                                 name_of(tensor.dtype), count, name_of(dtype)));
    }
    used_.insert(name);
    return &tensor;
  }

  Result<std::vector<float>> numbers(const std::string& name, int64_t count) {
    FULMAR_ASSIGN(const StoredTensor* const tensor, part(name, DType::f32, count));
    std::vector<float> values(static_cast<size_t>(count));
    copy_as_f32(*tensor, values);
    const auto bad = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
    if (bad != values.end()) {
      return corrupt(
          fmt::format("'{}' holds {} at {}; wanted finite numbers", name, *bad, bad - values.begin()));
    }
    return values;
  }

  Status check_described(const StoredTensor& absmax) const {
    const std::string stem = absmax.name.substr(0, absmax.name.size() - kAbsmax.size());
    if (by_name_.contains(stem + std::string(kState) + "nf4") ||
        by_name_.contains(stem + std::string(kState) + "fp4")) {
      return {};
    }
    return corrupt(
        fmt::format("'{}' has no '{}{}nf4' beside it, which says its shape", absmax.name, stem, kState));
  }

  // Returns the scales of the flattened blocks.
  Result<std::vector<float>> absmax_of(const std::string& stem, const Description& said) {
    const int64_t count = said.rows * said.cols, blocks = (count + said.block - 1) / said.block;
    if (!said.nested_offset) return numbers(stem + ".absmax", blocks);
    NestedScales nested;
    nested.offset = *said.nested_offset;
    const auto block = static_cast<int64_t>(kNestedBlock);
    FULMAR_ASSIGN(const StoredTensor* const index, part(stem + ".absmax", DType::u8, blocks));
    const auto* codes = reinterpret_cast<const uint8_t*>(index->data);
    nested.index.assign(codes, codes + blocks);
    FULMAR_ASSIGN(nested.block_scale, numbers(stem + ".nested_absmax", (blocks + block - 1) / block));
    FULMAR_ASSIGN(nested.map, numbers(stem + ".nested_quant_map", block));
    return unnest_scales(nested);
  }

  Status check_levels(const std::string& stem) {
    constexpr float kNear = 1e-5f;
    FULMAR_ASSIGN(const std::vector<float> levels, numbers(stem + ".quant_map", std::size(kNf4Levels)));
    for (size_t i = 0; i < levels.size(); i++) {
      if (std::abs(levels[i] - kNf4Levels[i]) <= kNear) continue;
      return Error{ErrorKind::unsupported,
                   fmt::format("bitsandbytes: level {} of '{}.quant_map' is {}; wanted {}, that of nf4", i,
                               stem, levels[i], kNf4Levels[i])};
    }
    return {};
  }

  Status join_nf4(const StoredTensor& state, const std::string& stem) {
    if (state.dtype != DType::u8 || !state.contiguous()) {
      return corrupt(fmt::format("'{}' holds {}; wanted u8 in one piece", state.name, name_of(state.dtype)));
    }
    const ByteSpan text(state.data, state.bytes());
    FULMAR_ASSIGN(const Description said, parse_description(as_text(text), state.name));
    used_.insert(state.name);
    const auto found = by_name_.find(stem);
    if (found == by_name_.end()) return corrupt(fmt::format("'{}' is missing", stem));
    StoredTensor& matrix = *found->second;
    const int64_t count = said.rows * said.cols;
    const auto wanted = static_cast<size_t>((count + 1) / 2);
    if (matrix.scales != nullptr || !matrix.contiguous() || matrix.bytes() != wanted) {
      return corrupt(fmt::format("'{}' has {} bytes of codes; its shape [{}, {}] wants {}", stem,
                                 matrix.bytes(), said.rows, said.cols, wanted));
    }
    FULMAR_TRY(check_levels(stem));
    FULMAR_ASSIGN(const std::vector<float> absmax, absmax_of(stem, said));
    // The largest parts of a row that are in one block each.
    const auto both = static_cast<uint64_t>(said.block) | static_cast<uint64_t>(said.cols);
    const int64_t group = std::min(int64_t{1} << std::countr_zero(both), kMostGroup);
    matrix.shape = {said.rows, said.cols};
    matrix.strides = row_major_strides(matrix.shape);
    if (group < kLeastGroup) {
      decode(matrix, absmax, said.block);
      return {};
    }
    matrix.dtype = DType::nf4;
    auto scales = std::make_shared<std::vector<float>>(static_cast<size_t>(count / group));
    for (size_t i = 0; i < scales->size(); i++) {
      (*scales)[i] = absmax[i * static_cast<size_t>(group) / static_cast<size_t>(said.block)];
    }
    own_scales(matrix, std::move(scales), group);
    return {};
  }

  void decode(StoredTensor& matrix, const std::vector<float>& absmax, int64_t block) {
    auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(matrix.count()));
    for (size_t i = 0; i < values->size(); i++) {
      const auto both = static_cast<uint8_t>(matrix.data[i / 2]);
      (*values)[i] = kNf4Levels[i % 2 == 0 ? both >> 4 : both & 15] * absmax[i / static_cast<size_t>(block)];
    }
    matrix.dtype = DType::f32;
    matrix.data = reinterpret_cast<const std::byte*>(values->data());
    parts_.owners.push_back(std::move(values));
  }

  void own_scales(StoredTensor& matrix, std::shared_ptr<std::vector<float>> scales, int64_t group) {
    matrix.scales = scales->data();
    matrix.group = group;
    parts_.owners.push_back(std::move(scales));
  }

  // Joins LLM.int8(): value = code * SCB[row] / 127.
  Status join_rows(const StoredTensor& row_scales, const std::string& stem) {
    constexpr float kLevels = 127;
    const auto found = by_name_.find(stem + ".weight");
    if (found == by_name_.end()) return corrupt(fmt::format("'{}.weight' is missing", stem));
    StoredTensor& matrix = *found->second;
    if (matrix.dtype != DType::i8 || matrix.shape.size() != 2 || !matrix.contiguous() ||
        matrix.count() == 0) {
      return corrupt(fmt::format("'{}' holds {} {}; wanted a matrix of i8 beside '{}'", matrix.name,
                                 name_of(matrix.dtype), shape_text(matrix.shape), row_scales.name));
    }
    if (const auto form = by_name_.find(stem + ".weight_format"); form != by_name_.end()) {
      FULMAR_ASSIGN(const StoredTensor* const format, part(form->second->name, DType::u8, 1));
      if (static_cast<int>(format->data[0]) != 0) {
        return Error{ErrorKind::unsupported, fmt::format("bitsandbytes: '{}' is {}; wanted 0, row after row",
                                                         format->name, static_cast<int>(format->data[0]))};
      }
    }
    FULMAR_ASSIGN(std::vector<float> values, numbers(row_scales.name, matrix.shape[0]));
    for (float& value : values) value /= kLevels;
    own_scales(matrix, std::make_shared<std::vector<float>>(std::move(values)), matrix.shape[1]);
    return {};
  }

  CheckpointParts& parts_;
  std::unordered_map<std::string, StoredTensor*> by_name_;
  std::unordered_set<std::string> used_;
};

}  // namespace

Status join_bitsandbytes(CheckpointParts& parts) { return Joiner(parts).run(); }

}  // namespace fulmar
