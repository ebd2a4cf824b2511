// Adds the index of the new state to whole answers and streams.
#include "server/native/branch_writer.h"

#include <fmt/format.h>

namespace fulmar {

BranchWriter::BranchWriter(AnswerHead head, NativeShape shape, bool include_usage, BranchTurn turn)
    : NativeWriter(std::move(head), shape, include_usage), turn_(std::move(turn)) {}

void BranchWriter::write_piece(const Piece& piece, std::vector<std::string>& events) {
  if (piece.ending) stored_ = piece.ending->wrote_session;
  NativeWriter::write_piece(piece, events);
}

// Adds an event with the new index, which only this route has and which is the only native event without
// choices.
void BranchWriter::write_closing(const Totals& totals, std::vector<std::string>& events) {
  NativeWriter::write_closing(totals, events);
  if (!stored_) return;
  JsonWriter json;
  json.begin_object().member("object", "multi_state.dialogue_idx");
  json.member("session_id", branch_session(turn_.to->tree(), turn_.to->index()));
  json.member("dialogue_idx", turn_.to->index()).end_object();
  events.push_back(json.take());
}

std::string BranchWriter::write_whole(std::vector<Choice> choices, const Totals& totals) {
  stored_ = choices.front().ending.wrote_session;
  return NativeWriter::write_whole(std::move(choices), totals);
}

void BranchWriter::write_extra(JsonWriter& json) const {
  if (stored_) json.member("dialogue_idx", turn_.to->index());
}

std::string BranchWriter::write_failure(const ApiError& error) {
  if (error.status != 404) return NativeWriter::write_failure(error);
  ApiError missing = error;
  missing.text = fmt::format("State not found for dialogue_idx={}", turn_.from);
  return NativeWriter::write_failure(missing);
}

}  // namespace fulmar
