#include "tensor/quantise.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/convert.h"
#include "tensor/scaled_codes.h"

namespace fulmar {

namespace {

constexpr int64_t kSharedGroup = 128, kNf4Group = 64;

constexpr Quantisation kQuantisations[] = {{"q8_0", DType::q8_0},
                                           {"q6_k", DType::q6_k},
                                           {"q5_k", DType::q5_k},
                                           {"q5_1", DType::q5_1},
                                           {"q5_0", DType::q5_0},
                                           {"q4_k", DType::q4_k},
                                           {"q4_1", DType::q4_1},
                                           {"q4_0", DType::q4_0},
                                           {"iq4_nl", DType::iq4_nl},
                                           {"q3_k", DType::q3_k},
                                           {"q2_k", DType::q2_k},
                                           {"nf4", DType::nf4, kNf4Group},
                                           {"int8", DType::i8, kWholeRow},
                                           {"int8_g128", DType::i8, kSharedGroup},
                                           {"int4", DType::i4, kSharedGroup},
                                           {"fp8", DType::f8_e4m3, kWholeRow}};

// Returns the next better quantisation with shorter blocks or groups; the same where there is none.
std::string_view wider(const Quantisation& quantisation) {
  switch (quantisation.dtype) {
    case DType::q2_k:
    case DType::q3_k:
    case DType::i4:
      return "q4_0";
    case DType::q4_k:
      return "q5_0";
    case DType::q5_k:
      return "q5_1";
    case DType::q6_k:
      return "q8_0";
    case DType::nf4:
      return "iq4_nl";
    case DType::i8:
      return "int8";
    default:
      return quantisation.name;
  }
}

}  // namespace

std::span<const Quantisation> all_quantisations() { return kQuantisations; }

std::optional<Quantisation> quantisation_named(std::string_view name) {
  const auto found =
      std::ranges::find_if(kQuantisations, [&](const Quantisation& q) { return q.name == name; });
  return found == std::end(kQuantisations) ? std::nullopt : std::optional(*found);
}

int64_t group_of(const Quantisation& quantisation, int64_t cols) {
  return quantisation.group == kWholeRow ? cols : quantisation.group;
}

bool suits(const Quantisation& quantisation, int64_t cols) {
  const int64_t group = group_of(quantisation, cols);
  return cols > 0 && cols % format_of(quantisation.dtype).block == 0 && (group == 0 || cols % group == 0);
}

std::optional<Quantisation> fitting(const Quantisation& quantisation, int64_t cols) {
  if (suits(quantisation, cols)) return quantisation;
  const std::optional<Quantisation> next = quantisation_named(wider(quantisation));
  return next && next->name != quantisation.name && suits(*next, cols) ? next : std::nullopt;
}

int64_t scales_per_row(const Quantisation& quantisation, int64_t cols) {
  const int64_t group = group_of(quantisation, cols);
  return group == 0 ? 0 : cols / group;
}

void encode_rows(const Quantisation& quantisation, std::span<const float> values, int64_t cols,
                 std::byte* codes, float* scales) {
  FULMAR_CHECK(suits(quantisation, cols) && values.size() % static_cast<size_t>(cols) == 0);
  const DType dtype = quantisation.dtype;
  if (is_block(dtype)) return encode_blocks(dtype, values, codes);
  const auto group = static_cast<size_t>(group_of(quantisation, cols));
  const size_t bytes = bytes_for(dtype, static_cast<int64_t>(group));
  for (size_t first = 0; first < values.size(); first += group, codes += bytes) {
    const auto part = values.subspan(first, group);
    *scales = scale_of_group(dtype, part);
    encode_group(dtype, part, *scales++, codes);
  }
}

void decode_row(DType dtype, const std::byte* codes, const float* scales, int64_t group,
                std::span<float> out) {
  if (scales == nullptr) return to_f32(dtype, codes, out);
  const auto most = static_cast<size_t>(group);
  for (size_t first = 0; first < out.size(); first += most) {
    const auto part = out.subspan(first, std::min(most, out.size() - first));
    decode_group(dtype, codes + bytes_for(dtype, static_cast<int64_t>(first)), *scales++, part);
  }
}

void decode_row(const Weight& weight, int64_t row, std::span<float> out) {
  FULMAR_CHECK(!weight.by_input() && static_cast<int64_t>(out.size()) == weight.in);
  const auto* codes = static_cast<const std::byte*>(weight.data);
  const float* scales = weight.scales;
  if (scales != nullptr) scales += row * (weight.in / weight.group);
  decode_row(weight.dtype, codes + static_cast<size_t>(row) * bytes_for(weight.dtype, weight.in), scales,
             weight.group, out);
}

void rows_as_f32(const HostMatrix& matrix, int64_t first, std::span<float> out) {
  const auto cols = static_cast<size_t>(matrix.cols);
  FULMAR_CHECK(cols > 0 && out.size() % cols == 0);
  if (matrix.row_major()) {
    const Weight rows{matrix.dtype,       matrix.rows,   matrix.cols, matrix.data,
                      WeightLayout::rows, matrix.scales, matrix.group};
    for (size_t at = 0; at < out.size(); at += cols) decode_row(rows, first++, out.subspan(at, cols));
    return;
  }
  const size_t element = size_of(matrix.dtype);
  for (size_t i = 0; i < out.size(); i++) {
    const int64_t row = first + static_cast<int64_t>(i / cols), col = static_cast<int64_t>(i % cols);
    const auto at = static_cast<size_t>(row * matrix.row_stride + col * matrix.col_stride);
    to_f32(matrix.dtype, matrix.data + at * element, out.subspan(i, 1));
  }
}

}  // namespace fulmar
