// The ceilings are plausible figures; how high they are is the machine's business.
#include "cpu/ceilings.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

TEST(Ceilings, ArePlausible) {
  ThreadPool pool(2);
  const auto ceilings = measure_ceilings(pool, {.buffer_bytes = size_t{1} << 20, .seconds = 0.01});
  ASSERT_TRUE(ceilings.ok());
  EXPECT_GT(ceilings->read_gbs, 0.01);
  EXPECT_LT(ceilings->read_gbs, 1e5);
  EXPECT_GT(ceilings->copy_gbs, 0.01);
  EXPECT_LT(ceilings->copy_gbs, 1e5);
  EXPECT_GT(ceilings->gflops, 0.01);
  EXPECT_LT(ceilings->gflops, 1e5);
}

}  // namespace
}  // namespace fulmar
