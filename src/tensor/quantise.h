// The list of quantisations, and the entry to their encoders and reference decoders: whole rows of f32 to
// codes and back. These decoders are the oracle of every kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tensor/format.h"
#include "tensor/weight.h"

namespace fulmar {

// A way to store a matrix.
struct Quantisation {
  std::string_view name;  // as commands and answers call it
  DType dtype = DType::f16;
  int64_t group = 0;  // weights of a row that share a scale beside the codes; 0: scales are inside
};

constexpr int64_t kWholeRow = -1;  // as a group: one scale a row

std::span<const Quantisation> all_quantisations();
// Returns the quantisation with that name: "q8_0", "q4_k", "nf4", "int8", ...; nothing if there is none.
std::optional<Quantisation> quantisation_named(std::string_view name);

// Returns the scale group of a matrix with rows of `cols` weights; 0 where scales are inside.
int64_t group_of(const Quantisation& quantisation, int64_t cols);
// Returns whether `cols` weights are a whole number of blocks and groups.
bool suits(const Quantisation& quantisation, int64_t cols);
// Returns the quantisation itself or, if rows of `cols` weights do not suit it, the next better one, as
// llama.cpp does: q2_k and q3_k become q4_0, q4_k q5_0, q5_k q5_1, q6_k q8_0. Nothing: keep 16 bits.
std::optional<Quantisation> fitting(const Quantisation& quantisation, int64_t cols);

// Returns how many separate scales a row of `cols` weights has.
int64_t scales_per_row(const Quantisation& quantisation, int64_t cols);

// Encodes whole rows of `cols` finite weights: writes rows * bytes_for(dtype, cols) bytes to `codes`, and
// rows * scales_per_row numbers to `scales`. Rows do not depend on each other.
void encode_rows(const Quantisation& quantisation, std::span<const float> values, int64_t cols,
                 std::byte* codes, float* scales);

// Decodes the first out.size() weights of a row, a whole number of blocks; `scales` and `group` as in Weight.
void decode_row(DType dtype, const std::byte* codes, const float* scales, int64_t group,
                std::span<float> out);

// Decodes row `row` of a weight in any format that is not transposed; out.size() is weight.in.
void decode_row(const Weight& weight, int64_t row, std::span<float> out);

// Decodes the rows from `first` on of a matrix in any format and layout, to row-major f32; out.size() is a
// multiple of matrix.cols.
void rows_as_f32(const HostMatrix& matrix, int64_t first, std::span<float> out);

}  // namespace fulmar
