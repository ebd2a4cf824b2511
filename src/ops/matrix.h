// Matrices in host memory as the backward computes with them: f32 to tune, f64 to test. Row-major, without
// gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fulmar {

template <class Number>
struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<Number> values;  // rows * cols

  Matrix() = default;
  // Makes a matrix of zeros.
  Matrix(int64_t row_count, int64_t col_count)
      : rows(row_count), cols(col_count), values(static_cast<size_t>(row_count * col_count)) {}

  bool empty() const { return values.empty(); }
  Number* row(int64_t i) { return values.data() + i * cols; }
  const Number* row(int64_t i) const { return values.data() + i * cols; }
  Number& operator()(int64_t i, int64_t j) { return values[static_cast<size_t>(i * cols + j)]; }
  Number operator()(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * cols + j)]; }

  Matrix& operator+=(const Matrix& other) {
    for (size_t i = 0; i < values.size(); i++) values[i] += other.values[i];
    return *this;
  }
};

// Where the sequences of packed rows begin, and the end of the last one: sequence s owns rows
// bounds[s]..bounds[s + 1], at least one.
using SequenceBounds = std::span<const int64_t>;

inline int64_t sequence_count(SequenceBounds bounds) { return static_cast<int64_t>(bounds.size()) - 1; }

// States before every kKeptEvery-th row of each sequence, in the order of the rows. The backward runs the
// rows in between again; to keep all states would take as many times the memory.
constexpr int64_t kKeptEvery = 16;
template <class Number>
using KeptStates = std::vector<Matrix<Number>>;  // each [H, N * N], a head [value][key]

// What a layer carries from row to row of each sequence, or the gradient of that.
template <class Number>
struct Carry {
  Matrix<Number> att_shift, ffn_shift;  // [sequences, C]
  Matrix<Number> wkv;                   // [sequences, H * N * N], each head [value][key], for every version

  Carry() = default;
  // Makes carries of zeros.
  Carry(int64_t sequences, int64_t n_head, int64_t head_size)
      : att_shift(sequences, n_head * head_size),
        ffn_shift(sequences, n_head * head_size),
        wkv(sequences, n_head * head_size * head_size) {}
};

}  // namespace fulmar
