// The CPU with an observer of its products: each of a model's matrices with its inputs, at the same logits.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cpu/cpu_ops.h"
#include "files/quantised.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using support::ModelRig;

class ObservedProducts : public testing::TestWithParam<int> {};

TEST_P(ObservedProducts, EveryLargeMatrixIsSeenWithItsInputs) {
  const SyntheticSpec spec = support::small_spec(GetParam(), 2, 16);
  auto checkpoint = synthetic_checkpoint(spec);
  std::map<const std::byte*, const StoredTensor*> large;
  for (const StoredTensor& tensor : checkpoint->tensors()) {
    if (is_large_matrix(tensor.name)) large[tensor.data] = &tensor;
  }
  const std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6};
  std::map<std::string, int64_t> rows;
  bool squares = true;
  const auto observed = make_observed_cpu_ops({.threads = 1}, [&](const std::byte* matrix, Tensor in) {
    const auto found = large.find(matrix);
    if (found == large.end()) return;
    const std::string& name = found->second->name;
    EXPECT_EQ(in.cols, found->second->shape[1]) << name;
    rows[name] += in.rows;
    for (int64_t i = 0; name.ends_with("ffn.value.weight") && i < in.cols; i++) {
      squares = squares && in.row<float>(0)[i] >= 0;
    }
  });
  ModelRig rig(std::move(checkpoint), *observed);
  const std::vector<float> logits = rig.feed(0, tokens, 5);
  EXPECT_EQ(rows.size(), large.size());
  for (const auto& [name, seen] : rows) {
    const int64_t steps = 2;  // each of which wants one row of logits
    EXPECT_EQ(seen, name == "head.weight" ? steps : static_cast<int64_t>(tokens.size())) << name;
  }
  EXPECT_TRUE(squares);

  const auto plain = make_cpu_ops({.threads = 1});
  ModelRig same(synthetic_checkpoint(spec), *plain);
  EXPECT_EQ(logits, same.feed(0, tokens, 5));
}

INSTANTIATE_TEST_SUITE_P(Versions, ObservedProducts, testing::ValuesIn(kVersions));

}  // namespace
}  // namespace fulmar
