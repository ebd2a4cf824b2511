#include "server/llama/llama_writer.h"

#include <algorithm>

#include "net/json_writer.h"

namespace fulmar {
namespace {

double milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

void write_timings(JsonWriter& json, int64_t prompt_tokens, double prompt_ms, int64_t tokens,
                   double predicted_ms) {
  const auto per_second = [](int64_t count, double ms) {
    return ms > 0 ? static_cast<double>(count) / ms * 1e3 : 0.0;
  };
  json.key("timings").begin_object().member("prompt_n", prompt_tokens).member("prompt_ms", prompt_ms);
  json.member("prompt_per_second", per_second(prompt_tokens, prompt_ms)).member("predicted_n", tokens);
  json.member("predicted_ms", predicted_ms).member("predicted_per_second", per_second(tokens, predicted_ms));
  json.end_object();
}

std::string_view stop_type(const Ending& ending) {
  switch (ending.reason) {
    case FinishReason::stop:
      return ending.stop_text ? "word" : "eos";
    case FinishReason::length:
      return "limit";
    case FinishReason::cancelled:
    case FinishReason::paused:
    case FinishReason::stopping:
    case FinishReason::failed:
      break;
  }
  return "none";
}

}  // namespace

std::string LlamaWriter::last_part(int32_t index, const std::string& content, const Ending& ending,
                                   const Totals& totals) const {
  const auto now = std::chrono::steady_clock::now();
  const auto first = first_.value_or(begun_);
  JsonWriter json;
  json.begin_object()
      .member("index", index)
      .member("content", content)
      .key("tokens")
      .begin_array()
      .end_array();
  json.member("id_slot", -1).member("stop", true).member("model", facts_.model);
  json.member("tokens_predicted", totals.completion_tokens)
      .member("tokens_evaluated", totals.prompt_tokens)
      .member("tokens_cached", totals.cached_tokens);
  json.member("truncated", is_cut(ending.reason)).member("stop_type", stop_type(ending));
  json.member("stopping_word", ending.stop_text.value_or(std::string())).member("prompt", facts_.prompt);
  write_timings(json, totals.prompt_tokens, milliseconds(first - begun_), totals.completion_tokens,
                milliseconds(now - first));
  write_adapter(json, totals.adapter);
  return json.end_object().take();
}

void LlamaWriter::write_piece(const Piece& piece, std::vector<std::string>& events) {
  if (!first_) first_ = std::chrono::steady_clock::now();
  if (piece.ending) {
    endings_.resize(std::max<size_t>(endings_.size(), static_cast<size_t>(piece.index) + 1));
    endings_[static_cast<size_t>(piece.index)] = *piece.ending;
  }
  if (piece.content.empty()) return;
  JsonWriter json;
  json.begin_object().member("index", piece.index).member("content", piece.content);
  json.key("tokens").begin_array().end_array().member("stop", false).member("id_slot", -1);
  events.push_back(json.end_object().take());
}

void LlamaWriter::write_closing(const Totals& totals, std::vector<std::string>& events) {
  for (size_t i = 0; i < endings_.size(); ++i) {
    events.push_back(last_part(static_cast<int32_t>(i), {}, endings_[i], totals));
  }
}

std::string LlamaWriter::write_whole(std::vector<Choice> choices, const Totals&) {
  std::string list;
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = choices[i];
    if (i > 0) list += ",";
    list += last_part(static_cast<int32_t>(i), choice.content, choice.ending, totals_of(choice.usage));
  }
  return facts_.several ? "[" + list + "]" : list;
}

}  // namespace fulmar
