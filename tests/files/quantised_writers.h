// Checkpoints as other programs quantise them: bitsandbytes' NF4 and LLM.int8(), rwkv_lightning's archives.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "files/converted.h"
#include "files/quantised.h"
#include "tensor/convert.h"
#include "tensor/scaled_codes.h"

namespace fulmar::test {

inline std::vector<float> values_of(const StoredTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  copy_as_f32(tensor, values);
  return values;
}

inline void add_bytes(Converted& out, std::string name, DType dtype, std::vector<int64_t> shape,
                      const void* data) {
  out.add(name, tensor_over(name, dtype, std::move(shape), data));
}

inline void add_floats(Converted& out, const std::string& name, const std::vector<float>& values) {
  add_bytes(out, name, DType::f32, {static_cast<int64_t>(values.size())}, values.data());
}

struct Nf4Form {
  size_t block = 64;
  bool nested = false;
};

// One matrix as NF4 in blocks of the flattened matrix.
inline void add_nf4(Converted& out, const std::string& name, const StoredTensor& matrix,
                    const Nf4Form& form) {
  std::vector<float> values = values_of(matrix);
  const int64_t count = matrix.count();
  std::vector<std::byte> codes(static_cast<size_t>((count + 1) / 2));
  std::vector<float> absmax;
  for (size_t first = 0; first < values.size(); first += form.block) {
    std::vector<float> part(
        values.begin() + static_cast<int64_t>(first),
        values.begin() + static_cast<int64_t>(std::min(values.size(), first + form.block)));
    absmax.push_back(scale_of_group(DType::nf4, part));
    if (part.size() % 2 != 0) part.push_back(0);
    encode_group(DType::nf4, part, absmax.back(), codes.data() + first / 2);
  }
  std::string state = fmt::format(R"({{"quant_type":"nf4","blocksize":{},"dtype":"float16","shape":[{},{}])",
                                  form.block, matrix.shape[0], matrix.shape[1]);
  add_bytes(out, name, DType::u8, {(count + 1) / 2, 1}, codes.data());
  add_floats(out, name + ".quant_map", {std::begin(kNf4Levels), std::end(kNf4Levels)});
  if (form.nested) {
    const NestedScales nested = nest_scales(absmax, dynamic_map());
    add_bytes(out, name + ".absmax", DType::u8, {static_cast<int64_t>(nested.index.size())},
              nested.index.data());
    add_floats(out, name + ".nested_absmax", nested.block_scale);
    add_floats(out, name + ".nested_quant_map", nested.map);
    state +=
        fmt::format(R"(,"nested_blocksize":256,"nested_dtype":"float32","nested_offset":{})", nested.offset);
  } else {
    add_floats(out, name + ".absmax", absmax);
  }
  state += "}";
  add_bytes(out, name + ".quant_state.bitsandbytes__nf4", DType::u8, {static_cast<int64_t>(state.size())},
            state.data());
}

// One matrix as LLM.int8().
inline void add_int8(Converted& out, const std::string& name, const StoredTensor& matrix) {
  const std::vector<float> values = values_of(matrix);
  const auto cols = static_cast<size_t>(matrix.shape[1]);
  std::vector<std::byte> codes(values.size());
  std::vector<float> scb;
  for (size_t first = 0; first < values.size(); first += cols) {
    const auto row = std::span(values).subspan(first, cols);
    scb.push_back(scale_of_group(DType::i8, row) * 127);
    encode_group(DType::i8, row, scale_of_group(DType::i8, row), codes.data() + first);
  }
  const uint8_t row_after_row = 0;
  const std::string stem = name.substr(0, name.size() - std::string(".weight").size());
  add_bytes(out, name, DType::i8, matrix.shape, codes.data());
  add_floats(out, stem + ".SCB", scb);
  add_bytes(out, stem + ".weight_format", DType::u8, {}, &row_after_row);
}

// Every large matrix but the head by `add`, the others as they are.
template <class Add>
Converted with_matrices(const Checkpoint& official, const Add& add) {
  Converted out;
  for (const StoredTensor& tensor : official.tensors()) {
    if (is_large_matrix(tensor.name) && tensor.name != "head.weight") {
      add(out, tensor);
    } else {
      out.add(tensor.name, tensor);
    }
  }
  return out;
}

inline std::string text_of(const void* data, size_t bytes) { return {static_cast<const char*>(data), bytes}; }

// A tensor of an rwkvq archive: its head, name, shape and data.
inline std::string rwkvq_entry(const std::string& name, uint8_t kind, uint16_t group,
                               const std::vector<int64_t>& shape, const std::string& data) {
  uint64_t count = 1;
  for (const int64_t side : shape) count *= static_cast<uint64_t>(side);
  std::string out = raw<uint32_t>(static_cast<uint32_t>(name.size())) + raw<uint8_t>(kind) +
                    raw<uint8_t>(static_cast<uint8_t>(shape.size())) + raw<uint16_t>(group) +
                    raw<uint64_t>(count) + name;
  for (const int64_t side : shape) out += raw<int64_t>(side);
  return out + data;
}

inline std::string rwkvq_file(const std::vector<std::string>& entries, uint32_t version = 1) {
  std::string out = std::string("RWKVQ\0\1\0", 8) + raw<uint32_t>(version) +
                    raw<uint32_t>(static_cast<uint32_t>(entries.size()));
  for (const std::string& entry : entries) out += entry;
  return out;
}

// Codes and f16 scales of a matrix: `group` weights share one, 0: a row of int8 does.
inline std::string rwkvq_matrix(const StoredTensor& matrix, uint16_t group) {
  const std::vector<float> values = values_of(matrix);
  const auto cols = static_cast<size_t>(matrix.shape[1]);
  const size_t each = group == 0 ? cols : group, row_bytes = group == 0 ? cols : (cols + 1) / 2;
  const float most = group == 0 ? 127 : 7;
  std::string codes, scales;
  for (size_t first = 0; first < values.size(); first += cols) {
    std::string row(row_bytes, '\0');
    for (size_t at = 0; at < cols; at += each) {
      const auto part = std::span(values).subspan(first + at, std::min(each, cols - at));
      float scale = 0;
      for (const float x : part) scale = std::max(scale, std::abs(x) / most);
      const uint16_t half = f32_to_f16(std::max(scale, 6e-8f));
      scales += raw<uint16_t>(half);
      for (size_t i = 0; i < part.size(); i++) {
        const int code =
            static_cast<int>(std::clamp(std::nearbyint(part[i] / f16_to_f32(half)), -most, most));
        const size_t col = at + i;
        if (group == 0) row[col] = static_cast<char>(code);
        if (group != 0) row[col / 2] |= static_cast<char>((code & 15) << (col % 2 == 0 ? 0 : 4));
      }
    }
    codes += row;
  }
  return codes + raw<uint64_t>(scales.size() / 2) + scales;
}

// A model as their converter writes it: everything but large matrices in 16 bits.
inline std::string as_rwkvq(const Checkpoint& official, uint16_t group) {
  std::vector<std::string> entries;
  for (const StoredTensor& tensor : official.tensors()) {
    if (is_large_matrix(tensor.name)) {
      entries.push_back(
          rwkvq_entry(tensor.name, group == 0 ? 2 : 3, group, tensor.shape, rwkvq_matrix(tensor, group)));
      continue;
    }
    const std::vector<std::byte> data = gather_contiguous(tensor);
    entries.push_back(rwkvq_entry(tensor.name, tensor.dtype == DType::bf16 ? 0 : 1, 0, tensor.shape,
                                  text_of(data.data(), data.size())));
  }
  return rwkvq_file(entries);
}

}  // namespace fulmar::test
