// A made-up block's fields on a GPU: no list of fields but the declared one decides what becomes of them.
#include "gpu/gpu_device.h"
#include "support/declared_fields.h"

namespace fulmar {
namespace {

class GpuDeclaredFields : public GpuTest, public testing::WithParamInterface<DType> {};

TEST_P(GpuDeclaredFields, AreRolledBack) {
  for (const bool half : {false, true}) {
    for (const int64_t every : {1, 2, 4}) {
      const StateWrites writes{.every = every, .revocable = 4};
      auto opened = open_test_gpu({.half_state = half, .activation = GetParam(), .state_writes = writes});
      ASSERT_TRUE(opened.ok()) << opened.error().text;
      support::expect_roll_backs(**opened, writes);
    }
  }
}

TEST_P(GpuDeclaredFields, AreCopiedSavedAndDivided) {
  for (const bool half : {false, true}) {
    auto opened = open_test_gpu({.half_state = half, .activation = GetParam()});
    ASSERT_TRUE(opened.ok()) << opened.error().text;
    support::expect_moves(**opened);
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, GpuDeclaredFields, testing::Values(DType::f16, DType::bf16));

}  // namespace
}  // namespace fulmar
