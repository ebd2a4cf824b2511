// Answers of a turn on a session tree: native answers with the index of the new state.
#pragma once

#include <memory>

#include "server/core/shape.h"
#include "server/native/branch_indices.h"
#include "server/native/native_writer.h"

namespace fulmar {

struct BranchTurn {
  int64_t from = 0;  // the node that the turn continues
  std::shared_ptr<const BranchIndices::Lease> to;
};

inline constexpr JsonShape kBranchEvent{
    "branch", R"({"object":"=multi_state.dialogue_idx","session_id":"string","dialogue_idx":"integer",)"
              R"("warnings?":["string"]})"};

class BranchWriter : public NativeWriter {
 public:
  BranchWriter(AnswerHead head, NativeShape shape, bool include_usage, BranchTurn turn);

  void write_piece(const Piece& piece, std::vector<std::string>& events) override;
  void write_closing(const Totals& totals, std::vector<std::string>& events) override;
  std::string write_whole(std::vector<Choice> choices, const Totals& totals) override;
  std::string write_failure(const ApiError& error) override;

 private:
  void write_extra(JsonWriter& json) const override;

  const BranchTurn turn_;
  bool stored_ = false;  // the turn has left a state
};

}  // namespace fulmar
