// A product of many rows with its end against the same product and the end as a pass of its own: tiles that
// rows, outputs and inputs do not fill, one cluster and many.
#include <algorithm>

#include "gpu/products/sm90/many.h"
#include "gpu/sm90/sm90_device.h"
#include "support/ops_rig.h"

namespace fulmar {
namespace {

struct Shape {
  int64_t rows, in, out;
};

class GpuManyRows : public Sm90Test, public testing::WithParamInterface<std::tuple<DType, Shape>> {
 protected:
  void SetUp() override {
    prepare(std::get<1>(GetParam()).rows, 1000);
    if (IsSkipped()) return;
    FULMAR_GPU(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, 0));
  }
  int multiprocessors_ = 0;
};

TEST_P(GpuManyRows, AgreeWithProductAndEndOneAfterTheOther) {
  const auto& [dtype, shape] = GetParam();
  const auto opened = open_test_gpu({.activation = dtype});
  ASSERT_TRUE(opened.ok());
  Ops& ops = *opened.value();
  support::OpsRig rig(ops, 3);
  const Tensor in = rig.tensor(shape.rows, shape.in).tensor;
  const Weight weight = rig.bare_weight(shape.out, shape.in, dtype, WeightRole::ffn_key);
  // A row more than is asked for, which stays as it is.
  const support::Made out = rig.tensor(shape.rows + 1, shape.out);
  const Tensor want = rig.empty(shape.rows, shape.out);
  ops.linear(in, weight, want);
  ops.activate(want, {}, Activation::relu_squared);
  ops.synchronise();
  gpu::linear_many({}, {in, weight, out.tensor.slice_rows(0, shape.rows), gpu::Epilogue::relu_squared},
                   multiprocessors_);
  FULMAR_GPU(cudaDeviceSynchronize());
  const support::Doubles got = rig.read(out.tensor);
  const auto rows_end = got.begin() + static_cast<std::ptrdiff_t>(shape.rows * shape.out);
  support::expect_close({got.begin(), rows_end}, rig.read(want), dtype, "relu squared");
  EXPECT_TRUE(std::equal(rows_end, got.end(), out.values.end() - shape.out)) << "the row behind the last";
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuManyRows,
                         testing::Combine(testing::Values(DType::f16, DType::bf16),
                                          testing::Values(Shape{1, 64, 64}, Shape{15, 8, 256},
                                                          Shape{16, 72, 264}, Shape{17, 4096, 320},
                                                          Shape{129, 1024, 2048}, Shape{257, 320, 4096},
                                                          Shape{1000, 512, 1536}, Shape{4097, 1024, 4096})));

}  // namespace
}  // namespace fulmar
