// Every island of a backend against its default composition of the same backend's primitives.
#include "support/islands.h"
#include "support/ops_cases.h"

namespace fulmar::support {

namespace {

const std::vector<IslandShape>& shapes() {
  static const std::vector<IslandShape> list = {
      {"one_row", 2, 64, 256, 32, DType::bf16, {1}},
      {"decode_of_five", 4, 64, 512, 32, DType::f16, {1, 1, 1, 1, 1}},
      {"ragged", 3, 16, 96, 8, DType::f32, {3, 1, 17, 16}},
      {"ragged_heads_of_64", 3, 64, 96, 40, DType::f16, {3, 1, 17, 16, 40}},
      {"prefill", 2, 64, 256, 24, DType::bf16, {70}},
  };
  return list;
}

}  // namespace

std::vector<OpsCase> island_cases() {
  std::vector<OpsCase> list;
  for (const cases::Island& island : cases::islands()) {
    for (const IslandShape& shape : shapes()) {
      list.push_back({island.name + "_" + shape.name, [&island, &shape](Ops& ops) {
                        CaseLayer stage(ops, shape);
                        const cases::Island::Run run = island.prepare(stage);
                        expect_equal(stage.run(run, cases::Body::own), stage.run(run, cases::Body::composed),
                                     island.slack * tolerance_of(ops.activation_dtype()));
                      }});
    }
  }
  return list;
}

}  // namespace fulmar::support
