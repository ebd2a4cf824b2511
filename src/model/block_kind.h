// What distinguishes the versions of a model beside the computation of their blocks.
#pragma once

#include <cstdint>
#include <memory>

#include "model/stack.h"
#include "ops/state.h"

namespace fulmar {

struct BlockKind {
  FieldList fields;  // of a layer's state
  KeptRow kept;
  bool needs_first_values;  // the values of block 0 go to all later blocks (Stream::v_first)
  std::unique_ptr<Stack> (*make)(const Binder&, LayerRange held, Buffers&, int64_t max_rows);
};

const BlockKind& block_kind(const ModelConfig& config);

}  // namespace fulmar
