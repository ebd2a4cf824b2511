// Tensors, weights, batches and states for op tests on any backend: made on the host with known numbers, read
// back as doubles.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace fulmar::support {

using Doubles = std::vector<double>;

// A tensor in backend memory, and the numbers it held when it was made (rounded to its type).
struct Made {
  Tensor tensor;
  Doubles values;  // row-major

  double at(int64_t row, int64_t col) const { return values[static_cast<size_t>(row * tensor.cols + col)]; }
};

struct MadeWeight {
  Weight weight;
  Doubles values;  // [out, in]
};

struct MadeNorm {
  Norm norm;
  Doubles weight, bias;
};

class OpsRig {
 public:
  explicit OpsRig(Ops& ops, uint32_t seed = 1) : ops_(ops), random_(seed) {}

  Ops& ops() { return ops_; }

  // Uniform numbers in [low, high); the activation type unless said otherwise.
  Made tensor(int64_t rows, int64_t cols, double low = -1, double high = 1);
  Made tensor(int64_t rows, int64_t cols, DType dtype, double low, double high);
  // The same with a share of zeros.
  Made sparse_tensor(int64_t rows, int64_t cols, DType dtype, double low, double high, double zeros);
  Made tensor_of(const Doubles& values, int64_t rows, int64_t cols, DType dtype);  // these numbers, row-major
  Made vector(int64_t rows, int64_t cols, double low = -1, double high = 1);       // by import_vector, f32
  MadeNorm norm(int64_t cols);
  // With `transposed` the host offers the matrix column by column, as the low-rank factors lie in files.
  MadeWeight weight(int64_t out, int64_t in, DType dtype, WeightRole role, bool transposed = false);
  // The same without its numbers, for large ones.
  Weight bare_weight(int64_t out, int64_t in, DType dtype, WeightRole role, bool transposed = false);
  Tensor empty(int64_t rows, int64_t cols);  // activation type
  Tensor empty(int64_t rows, int64_t cols, DType dtype);
  Made same(const Made& from);  // a copy with memory of its own

  // Sequences of these lengths in the last slots of a new state of random numbers, one layer.
  Batch begin(const std::vector<int32_t>& lengths, int64_t n_head, int64_t head_size);
  const std::vector<int32_t>& starts() const { return start_; }
  const std::vector<int32_t>& slots() const { return slot_; }
  const std::vector<int32_t>& tokens() const { return token_; }
  const std::vector<int32_t>& wanted() const { return wanted_; }
  const State& state() const { return state_; }
  void set_tokens_below(int32_t vocab) { vocab_ = vocab; }
  // All numbers made from now on are numbers of this type, too, wherever they are stored.
  void set_rounded_to(DType dtype) { rounded_to_ = dtype; }

  Doubles read(Tensor tensor);
  Doubles read(StateField field, int64_t slot, int64_t count);
  std::vector<std::byte> read_all_slots();
  void write_all_slots(const std::vector<std::byte>& bytes);

 private:
  Buffer& allocate(size_t bytes);
  Made stored(const std::vector<float>& values, int64_t rows, int64_t cols, DType dtype);
  std::vector<float> numbers(int64_t count, DType dtype, double low, double high);
  std::vector<float> weight_numbers(int64_t out, int64_t in, DType dtype);
  Weight import(const std::vector<float>& values, int64_t out, int64_t in, DType dtype, WeightRole role,
                bool transposed);

  Ops& ops_;
  std::mt19937 random_;
  std::deque<Buffer> buffers_;
  std::deque<std::vector<std::byte>> host_;  // what borrowed weights point into
  std::vector<int32_t> token_, start_, slot_, wanted_;
  int32_t vocab_ = 16;
  DType rounded_to_ = DType::f32;
  State state_{.layout = {.fields = kShiftsAndWkv}};
};

// Fails the test unless |got - want| is below `tolerance` of the size of `want` (root of summed squares),
// which is chosen for the type that the backend computes in.
void expect_close(const Doubles& got, const Doubles& want, DType computed_in, const std::string& what);
void expect_close(const Doubles& got, const Doubles& want, double tolerance, const std::string& what);
double tolerance_of(DType computed_in);

}  // namespace fulmar::support
