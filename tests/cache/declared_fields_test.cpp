// A made-up block's fields on the CPU: no list of fields but the declared one decides what becomes of them.
#include "support/declared_fields.h"

#include <gtest/gtest.h>

#include "cache/state_blob.h"
#include "cpu/cpu_ops.h"

namespace fulmar {
namespace {

TEST(DeclaredFields, AreRolledBackOnTheCpu) {
  for (const int64_t every : {1, 2, 4}) {
    const StateWrites writes{.every = every, .revocable = 4};
    support::expect_roll_backs(*make_cpu_ops({.threads = 2, .state_writes = writes}), writes);
  }
}

TEST(DeclaredFields, AreCopiedSavedAndDividedOnTheCpu) {
  support::expect_moves(*make_cpu_ops({.threads = 2}));
}

StateBlob blob_of(const FieldList& fields) {
  StateBlob blob{.fingerprint = "model",
                 .layout = {.n_layer = 1, .n_embd = 4, .n_head = 2, .head_size = 2, .fields = fields}};
  blob.payload.resize(blob.layout.slot_bytes());
  return blob;
}

TEST(DeclaredFields, AreListedInASavedStateWhereTheyAreNotTheUsualOnes) {
  const auto holds_line = [](const FieldList& fields) {
    const auto bytes = encode_blob(blob_of(fields));
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return text.find("\nfields att_shift:channels:shift memory:channels:f32 ") != std::string::npos;
  };
  EXPECT_TRUE(holds_line(support::kMadeUpFields));
  EXPECT_FALSE(holds_line(kShiftsAndWkv));
}

TEST(DeclaredFields, OfAnotherModelAreRefusedByName) {
  const StateBlob usual = blob_of(kShiftsAndWkv), more = blob_of(support::kMadeUpFields);
  for (const auto& [blob, layout] : {std::pair(usual, more.layout), std::pair(more, usual.layout)}) {
    const auto payload = payload_for(blob, "model", layout);
    ASSERT_FALSE(payload.ok());
    EXPECT_NE(payload.error().text.find("memory:channels:f32"), std::string::npos) << payload.error().text;
  }
}

}  // namespace
}  // namespace fulmar
