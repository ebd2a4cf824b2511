#include "server/ollama/ollama_writer.h"

#include "server/generate/writer_parts.h"

namespace fulmar {
namespace {

std::string_view done_reason(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
    case FinishReason::paused:
    case FinishReason::stopping:
      return cut_text(reason);
    case FinishReason::failed:
      break;
  }
  return "error";
}

}  // namespace

OllamaWriter::OllamaWriter(OllamaFacts facts) : facts_(std::move(facts)) {
  if (!facts_.calls.names.empty()) splitter_.emplace(facts_.calls);
}

// Returns a line's part of an answer. Drops a call that was cut off, as Ollama does: its clients execute
// calls without looking at done_reason.
OllamaWriter::LineContent OllamaWriter::part_of(const std::string& reasoning, const std::string& content,
                                                const std::optional<Ending>& ending) {
  if (!splitter_) return {reasoning, content, {}};
  TextAndCalls found = splitter_->feed(content, ending);
  if (found.last_is_cut) found.calls.pop_back();
  return {reasoning, std::move(found.content), std::move(found.calls)};
}

JsonWriter OllamaWriter::begin_line(const LineContent& part) const {
  JsonWriter json;
  json.begin_object()
      .member("model", facts_.model)
      .member("created_at", time_text(std::chrono::system_clock::now()));
  if (facts_.chat) json.key("message").begin_object().member("role", "assistant");
  json.member(facts_.chat ? "content" : "response", part.content);
  if (!part.thinking.empty()) json.member("thinking", part.thinking);
  if (!facts_.chat) return json;
  if (!part.calls.empty()) {
    json.key("tool_calls").begin_array();
    for (size_t i = 0; i < part.calls.size(); ++i) {
      json.begin_object().member("id", part.calls[i].id).key("function").begin_object();
      json.member("index", i)
          .member("name", part.calls[i].name)
          .key("arguments")
          .raw(part.calls[i].arguments);
      json.end_object().end_object();
    }
    json.end_array();
  }
  json.end_object();
  return json;
}

// Makes the last line, with durations in nanoseconds. For a whole answer the time to its first token is
// unknown.
std::string OllamaWriter::last_line(const LineContent& part, const Totals& totals) const {
  const auto now = std::chrono::steady_clock::now();
  const auto nanoseconds = [](auto duration) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  };
  const auto first = first_.value_or(begun_);
  JsonWriter json = begin_line(part);
  json.member("done", true).member("done_reason", done_reason(reason_));
  json.member("total_duration", nanoseconds(now - begun_)).member("load_duration", 0);
  json.member("prompt_eval_count", totals.prompt_tokens)
      .member("prompt_eval_duration", nanoseconds(first - begun_));
  json.member("eval_count", totals.completion_tokens).member("eval_duration", nanoseconds(now - first));
  write_adapter(json, totals.adapter);
  return json.end_object().take();
}

void OllamaWriter::write_piece(const Piece& piece, std::vector<std::string>& events) {
  if (!first_) first_ = std::chrono::steady_clock::now();
  if (piece.ending) reason_ = piece.ending->reason;
  const LineContent part = part_of(piece.reasoning, piece.content, piece.ending);
  if (part.empty()) return;
  events.push_back(begin_line(part).member("done", false).end_object().take());
}

void OllamaWriter::write_closing(const Totals& totals, std::vector<std::string>& events) {
  events.push_back(last_line({}, totals));
}

std::string OllamaWriter::write_whole(std::vector<Choice> choices, const Totals& totals) {
  const Choice& choice = choices.front();
  reason_ = choice.ending.reason;
  return last_line(part_of(choice.reasoning, choice.content, choice.ending), totals);
}

}  // namespace fulmar
