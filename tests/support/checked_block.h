// What tests of blocks' backwards share: shapes, weights with adapters, carries, and chunks of a sequence.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "support/finite_differences.h"

namespace fulmar::support {

struct BlockCase {
  std::vector<int64_t> bounds;
  int64_t n_head, head_size;
  double decay;                   // bias of the decay before its activation
  std::string_view adapter = {};  // "lora", "miss"
  bool first_block = true;

  int64_t width() const { return n_head * head_size; }
};

inline LinearParameters<double> make_linear(CheckedParameters& made, int64_t out, int64_t in,
                                            std::string_view adapter) {
  LinearParameters<double> p{made.make(out, in, 0.5)};
  p.delta.scale = 1.5;
  if (adapter == "lora") p.delta.a = made.make(2, in, 0.5), p.delta.b = made.make(out, 2, 0.5);
  if (adapter == "miss") p.delta.d = made.make(3, out, 0.5);
  return p;
}

inline Carry<double> make_carry(const BlockCase& c, RandomNumbers& random) {
  Carry<double> carry(sequence_count(c.bounds), c.n_head, c.head_size);
  for (HostNumbers* one : {&carry.att_shift, &carry.ffn_shift, &carry.wkv}) {
    *one = random.matrix(one->rows, one->cols);
  }
  return carry;
}

inline HostNumbers rows_of(const HostNumbers& m, int64_t begin, int64_t end) {
  HostNumbers part(end - begin, m.cols);
  std::copy(m.row(begin), m.row(begin) + part.rows * m.cols, part.row(0));
  return part;
}

// Expects a sequence of `rows` rows, fed in chunks with the carries handed on forwards and their gradients
// backwards, to give the gradients of the whole. `run` returns the gradients for chunks with these borders.
inline void expect_chunks_give_the_whole(
    int64_t rows, const std::function<std::vector<HostNumbers>(const std::vector<int64_t>& cuts)>& run) {
  const std::vector<HostNumbers> wanted = run({0, rows});
  for (const std::vector<int64_t>& cuts :
       {std::vector<int64_t>{0, 1, rows}, {0, 16, 32, rows}, {0, 15, 31, rows - 1, rows}}) {
    const std::vector<HostNumbers> got = run(cuts);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); i++) {
      EXPECT_THAT(got[i].values, testing::Pointwise(testing::DoubleNear(1e-10), wanted[i].values)) << i;
    }
  }
}

}  // namespace fulmar::support
