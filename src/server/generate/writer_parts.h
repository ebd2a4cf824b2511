// Pieces of JSON that several families' writers share: the head of an answer, usage, finish reasons.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "net/json_writer.h"
#include "server/core/shape.h"
#include "server/generate/writer.h"

namespace fulmar {

// The members that every answer and every event of a request begin with.
struct AnswerHead {
  std::string id;
  std::string_view object;
  int64_t created = 0;
  std::string model;
  std::string service_tier = {};  // empty: left out
};

// Formats a time as RFC 3339 in UTC, with microseconds.
std::string time_text(std::chrono::system_clock::time_point at);
// Opens an object and writes the head into it.
void write_head(JsonWriter& json, const AnswerHead& head);
// Opens {"object":"list","data":[, as lists of every family begin.
JsonWriter begin_list();
// The member "adapter": what an answer was made with.
inline constexpr JsonShape kAdapterTold{"adapter",
                                        R"({"id":"string","version":"string","strength":"number"})"};
// Writes it, with the first digits of the version; nothing where no adapter was named.
void write_adapter(JsonWriter& json, const std::shared_ptr<const AdapterLabel>& label);
// The member "usage".
inline constexpr JsonShape kUsage{
    "usage",
    R"({"prompt_tokens":"integer","completion_tokens":"integer","total_tokens":"integer",)"
    R"("prompt_tokens_details?":{"cached_tokens":"integer"},"completion_tokens_details?":)"
    R"({"reasoning_tokens?":"integer","accepted_prediction_tokens?":"integer",)"
    R"("rejected_prediction_tokens?":"integer"},"adapter?":"@adapter"})",
    &kAdapterTold};
void write_usage(JsonWriter& json, const Totals& totals);
// Makes the event between the last piece and [DONE] that clients ask for with stream_options.include_usage.
std::string usage_event(const AnswerHead& head, const Totals& totals);
// Opens an event's object and its only choice.
JsonWriter begin_choice_event(const AnswerHead& head);
// Closes what begin_choice_event opened. With `usage_later` clients expect a null usage until the last event.
std::string end_choice_event(JsonWriter& json, bool usage_later);
// Names a cut as answers of all families do that have a place for words of their own: "cancelled", "paused",
// "server_stopping". Empty for other ends.
std::string_view cut_text(FinishReason reason);
// Writes the members "finish_reason" and, when a stop matched or the row was cut, "stop_reason". While a
// choice goes on, they are null.
void write_ending_or_null(JsonWriter& json, const Ending* ending, Family family);
void write_ending(JsonWriter& json, const Ending& ending, Family family);

}  // namespace fulmar
