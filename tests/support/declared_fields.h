// What becomes of the fields that a block declares, on any backend: rings, roll-backs, copies, saved states
// and slices follow the declaration, whatever fields there are.
#pragma once

#include "ops/ops.h"

namespace fulmar::support {

// The fields of RWKV-7 and one of every other shape and type that can be restored.
inline constexpr FieldSpec kMadeUpFields[] = {
    kShiftsAndWkv[kAttShift],
    {"memory", FieldSpec::Shape::channels, FieldSpec::Type::f32, FieldSpec::RollBack::restored},
    kShiftsAndWkv[kFfnShift],
    {"head_memory", FieldSpec::Shape::head_vectors, FieldSpec::Type::f32, FieldSpec::RollBack::restored},
    kShiftsAndWkv[kWkv],
    {"second_shift", FieldSpec::Shape::head_vectors, FieldSpec::Type::shift, FieldSpec::RollBack::restored},
    {"matrices", FieldSpec::Shape::head_matrices, FieldSpec::Type::wkv, FieldSpec::RollBack::restored},
};

// Feeds rows that may be lost, as a block would keep them; expects after a roll-back what each field was.
void expect_roll_backs(Ops& ops, const StateWrites& writes);
// Expects that a state stays what it was when it is copied, saved and loaded, and divided among ranks.
void expect_moves(Ops& ops);

}  // namespace fulmar::support
