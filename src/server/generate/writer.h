// The parts of an answer, and the interface through which each family formats it. Pure: knows no engine
// thread and no socket.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/event.h"
#include "server/core/errors.h"
#include "server/core/framing.h"
#include "text/reasoning_split.h"

namespace fulmar {

struct Ending {
  FinishReason reason = FinishReason::stop;
  std::optional<int32_t> stop_id;
  std::optional<std::string> stop_text;
  bool wrote_session = false;  // the row's session holds the state behind it
};

// The part of a choice that is new since its last piece.
struct Piece {
  int32_t index = 0;
  std::string reasoning;  // only where the answer is split
  std::string content;
  std::vector<TokenRecord> tokens;  // only with log-probabilities
  std::optional<Ending> ending;     // set in the last piece of the choice
};

// One whole choice.
struct Choice {
  std::string reasoning;
  std::string content;
  std::vector<TokenRecord> tokens;
  std::vector<TokenRecord> prompt_scores;
  Ending ending;
  Usage usage;
};

// Converts a choice to a single piece, without scores, for writers that build whole answers from the events
// of a stream.
inline Piece whole_piece(Choice choice) {
  return {.index = 0,
          .reasoning = std::move(choice.reasoning),
          .content = std::move(choice.content),
          .tokens = {},
          .ending = std::move(choice.ending)};
}

// Token counts of all choices of a request together.
struct Totals {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t reasoning_tokens = 0;  // of the completion, with the closing tag; 0 unless the answer is split
  int64_t accepted_draft_tokens = 0, rejected_draft_tokens = 0;  // of speculative decoding
  std::shared_ptr<const AdapterLabel> adapter = nullptr;         // which the request named
};

// Returns those of a lone row, whose text is not split.
inline Totals totals_of(const Usage& usage) {
  return {.prompt_tokens = usage.prompt_tokens,
          .completion_tokens = usage.completion_tokens,
          .cached_tokens = usage.cached_tokens,
          .adapter = usage.adapter};
}

// How far the text of a row that is paused has been taken apart.
struct PausedRow {
  const std::optional<ReasoningSplitter>& splitter;
  int64_t reasoning_tokens = 0;
};

// One per request; calls come one after another. Every text is one JSON value without line ends.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual Family family() const = 0;
  virtual Framing framing() const { return Framing::done_marked; }

  // Appends the events that open choice `index` of a stream.
  virtual void write_opening(int32_t index, std::vector<std::string>& events) = 0;
  // Appends the events that carry `piece`.
  virtual void write_piece(const Piece& piece, std::vector<std::string>& events) = 0;
  // Appends the events after the last piece.
  virtual void write_closing(const Totals& totals, std::vector<std::string>& events) = 0;

  // Writes the whole answer; `choices` are in order of their index.
  virtual std::string write_whole(std::vector<Choice> choices, const Totals& totals) = 0;

  // Tells whether an answer says that it was cut; without, an error goes out in its place.
  virtual bool tells_cuts() const { return true; }
  // Keeps what it takes to go on once the row is resumed. Called before the last piece of a paused row of a
  // stream, when all its text so far is written.
  virtual void keep_paused(const PausedRow& /*row*/) {}

  // Writes the body of an answer whose engine has failed.
  virtual std::string write_failure(const ApiError& error) { return error_json(family(), error); }
  // Writes the last event of a stream whose engine has failed.
  virtual std::string write_failed_event(const ApiError& error) { return write_failure(error); }
};

}  // namespace fulmar
