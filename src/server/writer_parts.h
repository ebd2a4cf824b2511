// Pieces of JSON that several families' writers share: the head of an answer, usage, finish reasons.
#pragma once

#include <string>
#include <string_view>

#include "net/json_writer.h"
#include "server/writer.h"

namespace fulmar {

// The members that every answer and every event of a request begin with.
struct AnswerHead {
  std::string id;
  std::string_view object;
  int64_t created = 0;
  std::string model;
};

// Opens an object and writes the head into it.
void write_head(JsonWriter& json, const AnswerHead& head);
// The member "usage".
void write_usage(JsonWriter& json, const Totals& totals);
// The members "finish_reason" and, where something matched, "stop_reason".
void write_ending(JsonWriter& json, const Ending& ending, Family family);

}  // namespace fulmar
