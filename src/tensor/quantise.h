// Which quantisations there are, and one door to their encoders and reference decoders: whole rows of f32 to
// codes and back. What decodes here is the oracle of every kernel.
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
// "q8_0", "q4_k", "nf4", "int8", ...; nothing where no quantisation has that name.
std::optional<Quantisation> quantisation_named(std::string_view name);

// The scale group of a matrix with rows of `cols` weights; 0 where scales are inside.
int64_t group_of(const Quantisation& quantisation, int64_t cols);
// True where rows of `cols` weights are whole blocks and groups.
bool suits(const Quantisation& quantisation, int64_t cols);
// The quantisation itself, or where it does not suit rows of that length the next better one that does, as
// llama.cpp chooses: q2_k and q3_k become q4_0, q4_k q5_0, q5_k q5_1, q6_k q8_0. Nothing: keep 16 bits.
std::optional<Quantisation> fitting(const Quantisation& quantisation, int64_t cols);

// Numbers of scales that a row of `cols` weights has beside its codes.
int64_t scales_per_row(const Quantisation& quantisation, int64_t cols);

// Packs whole rows of `cols` finite weights: rows * bytes_for(dtype, cols) bytes to `codes`, and
// rows * scales_per_row numbers to `scales`. Rows do not depend on each other.
void encode_rows(const Quantisation& quantisation, std::span<const float> values, int64_t cols,
                 std::byte* codes, float* scales);

// Decodes the first out.size() weights of a row, whole blocks; `scales` and `group` as in Weight.
void decode_row(DType dtype, const std::byte* codes, const float* scales, int64_t group,
                std::span<float> out);

// Row `row` of a weight that is not transposed, in any format; out.size() is weight.in.
void decode_row(const Weight& weight, int64_t row, std::span<float> out);

// The rows from `first` on of a matrix in any format and layout, row-major; out.size() is a multiple of
// matrix.cols.
void rows_as_f32(const HostMatrix& matrix, int64_t first, std::span<float> out);

}  // namespace fulmar
