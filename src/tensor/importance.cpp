#include "tensor/importance.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "tensor/blocks256.h"
#include "tensor/blocks32.h"
#include "tensor/scaled_codes.h"

namespace fulmar {

namespace {

// Packs one block, or the weights that share a scale beside their codes, in both ways.
class UnitEncoder {
 public:
  UnitEncoder(const Quantisation& quantisation, size_t unit)
      : dtype_(quantisation.dtype),
        plain_{quantisation.name, dtype_, quantisation.group == 0 ? 0 : kWholeRow},
        counts_(unit),
        searched_(bytes_for(dtype_, static_cast<int64_t>(unit))),
        decoded_(unit) {}

  size_t bytes() const { return searched_.size(); }

  // Encodes one block or group in both ways and keeps the better; `scale` is null where scales are inside.
  void encode(std::span<const float> values, std::span<const float> importance, std::byte* codes,
              float* scale) {
    count_errors(values, importance);
    encode_rows(plain_, values, static_cast<int64_t>(values.size()), codes, scale);
    float found = 0;
    search(values, found);
    const double before = error_of(values, codes, scale);
    const double after = error_of(values, searched_.data(), scale == nullptr ? nullptr : &found);
    if (!(after < before)) return;  // nor where it is no number
    std::copy(searched_.begin(), searched_.end(), codes);
    if (scale != nullptr) *scale = found;
  }

 private:
  void count_errors(std::span<const float> values, std::span<const float> importance) {
    float squares = 0;
    for (const float value : values) squares += value * value;
    const float mean = squares / static_cast<float>(values.size());
    for (size_t i = 0; i < values.size(); i++) {
      counts_[i] = importance[i] * std::sqrt(mean + values[i] * values[i]);
    }
  }

  void search(std::span<const float> values, float& scale) {
    if (is_block(dtype_)) {
      if (format_of(dtype_).block == kBlock32) {
        encode_block32(dtype_, values.data(), counts_.data(), searched_.data());
      } else {
        encode_block256(dtype_, values.data(), counts_.data(), searched_.data());
      }
      return;
    }
    scale = search_scale_of_group(dtype_, values, counts_);
    encode_group(dtype_, values, scale, searched_.data());
  }

  double error_of(std::span<const float> values, const std::byte* codes, const float* scale) {
    decode_row(dtype_, codes, scale, static_cast<int64_t>(values.size()), decoded_);
    double sum = 0;
    for (size_t i = 0; i < values.size(); i++) {
      const auto off = static_cast<double>(decoded_[i]) - static_cast<double>(values[i]);
      sum += static_cast<double>(counts_[i]) * off * off;
    }
    return sum;
  }

  const DType dtype_;
  const Quantisation plain_;
  std::vector<float> counts_;  // what the squared error of each weight counts
  std::vector<std::byte> searched_;
  std::vector<float> decoded_;
};

}  // namespace

bool gains_by_importance(DType dtype) {
  const bool few_bits = format_of(dtype).bytes < format_of(dtype).block;
  return dtype == DType::f8_e4m3 || (few_bits && dtype != DType::q6_k && dtype != DType::q5_k);
}

void encode_rows(const Quantisation& quantisation, std::span<const float> values,
                 std::span<const float> importance, std::byte* codes, float* scales) {
  const size_t cols = importance.size();
  FULMAR_CHECK(suits(quantisation, static_cast<int64_t>(cols)) && values.size() % cols == 0);
  if (!gains_by_importance(quantisation.dtype)) {
    return encode_rows(quantisation, values, static_cast<int64_t>(cols), codes, scales);
  }
  const int64_t group = group_of(quantisation, static_cast<int64_t>(cols));
  const auto unit = static_cast<size_t>(group == 0 ? format_of(quantisation.dtype).block : group);
  UnitEncoder encoder(quantisation, unit);
  for (size_t at = 0; at < values.size(); at += unit, codes += encoder.bytes()) {
    encoder.encode(values.subspan(at, unit), importance.subspan(at % cols, unit), codes, scales);
    if (scales != nullptr) scales++;
  }
}

}  // namespace fulmar
