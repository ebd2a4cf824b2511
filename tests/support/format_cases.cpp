// Products with quantised weights of every kind, against the reference decoder's numbers and sums in f64: at
// shapes that fill no tile and no block of 128, in all row counts that take ways of their own.
#include <gtest/gtest.h>

#include "support/ops_cases.h"
#include "support/ops_rig.h"
#include "tensor/quantise.h"

namespace fulmar::support {

namespace {

struct Shape {
  const char* name;
  WeightRole role;
  int64_t out, in;
  std::vector<int64_t> rows;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> list = {
      {"tiles", WeightRole::projection, 136, 512, {1, 2, 8, 9, 17, 33, 65, 130}},
      {"part_of_a_tile", WeightRole::projection, 20, 768, {1, 3, 8, 16, 40, 100}},
      {"odd_outputs", WeightRole::head, 33, 1280, {1, 5, 11}},
      {"short_rows", WeightRole::projection, 24, 96, {1, 4, 20}},
      {"one_piece", WeightRole::ffn_key, 48, 128, {1, 7, 12, 70}},
      {"narrow_square", WeightRole::projection, 128, 128, {1, 5, 24, 200}},
      {"value", WeightRole::ffn_value, 256, 1536, {1, 3, 8, 9, 40, 65}},
      {"narrow_value", WeightRole::ffn_value, 128, 512, {1, 8, 33}},
      {"odd_value", WeightRole::ffn_value, 64, 768, {1, 8, 20}},
  };
  return list;
}

struct Packed {
  std::vector<std::byte> codes;
  std::vector<float> scales;
  HostMatrix matrix;
  Doubles values;  // [out, in]
};

void pack(const Quantisation& by, const Shape& shape, Packed& to) {
  std::vector<float> numbers(static_cast<size_t>(shape.out * shape.in));
  uint32_t state = 17;
  for (float& x : numbers) {
    state = state * 1664525u + 1013904223u;
    x = (static_cast<float>(state >> 8) * 0x1p-24f - 0.45f) * 0.05f;
  }
  to.codes.resize(bytes_for(by.dtype, shape.out * shape.in));
  to.scales.resize(static_cast<size_t>(shape.out * scales_per_row(by, shape.in)));
  encode_rows(by, numbers, shape.in, to.codes.data(), to.scales.data());
  to.matrix = {to.codes.data(), by.dtype, shape.out, shape.in, shape.in, 1};
  if (!to.scales.empty()) to.matrix.scales = to.scales.data(), to.matrix.group = group_of(by, shape.in);
  std::vector<float> decoded(numbers.size());
  rows_as_f32(to.matrix, 0, decoded);
  to.values.assign(decoded.begin(), decoded.end());
}

Doubles product(const Made& in, const Packed& weight) {
  const int64_t out = weight.matrix.rows, depth = weight.matrix.cols;
  Doubles want;
  for (int64_t r = 0; r < in.tensor.rows; r++) {
    for (int64_t o = 0; o < out; o++) {
      double sum = 0;
      for (int64_t i = 0; i < depth; i++) {
        sum += in.at(r, i) * weight.values[static_cast<size_t>(o * depth + i)];
      }
      want.push_back(sum);
    }
  }
  return want;
}

void run_case(Ops& ops, const Quantisation& by, const Shape& shape) {
  // A backend that computes in f32 may still round activations to 8 bits.
  const DType activation = ops.activation_dtype();
  const double tolerance = activation == DType::f32 ? 1e-2 : tolerance_of(activation);
  Packed weight;
  pack(by, shape, weight);
  OpsRig rig(ops, 4);
  const auto imported = ops.import_weight(weight.matrix, shape.role);
  ASSERT_TRUE(imported.ok()) << imported.error().text;
  const double zeros = shape.role == WeightRole::ffn_value ? 0.9 : 0;
  for (const int64_t rows : shape.rows) {
    const Made in = rig.sparse_tensor(rows, shape.in, activation, -1, 1, zeros);
    const Doubles want = product(in, weight);
    for (const DType to : {activation, DType::f32}) {
      const Tensor out = rig.empty(rows, shape.out, to);
      ops.linear(in.tensor, *imported, out);
      expect_close(rig.read(out), want, tolerance, std::to_string(rows) + " rows");
    }
  }
}

}  // namespace

std::vector<OpsCase> format_cases() {
  std::vector<OpsCase> list;
  for (const Quantisation& by : all_quantisations()) {
    for (const Shape& shape : shapes()) {
      if (!suits(by, shape.in)) continue;
      list.push_back(
          {std::string(by.name) + "_" + shape.name, [&by, &shape](Ops& ops) { run_case(ops, by, shape); }});
    }
  }
  return list;
}

}  // namespace fulmar::support
