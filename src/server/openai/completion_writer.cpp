// Writes the shapes of text completions and picks the best of several.
#include "server/openai/completion_writer.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "server/generate/logprobs.h"

namespace fulmar {
namespace {

double mean_logprob(const Choice& choice) {
  if (choice.tokens.empty()) return -std::numeric_limits<double>::infinity();
  double sum = 0;
  for (const TokenRecord& record : choice.tokens) sum += record.logprob;
  return sum / static_cast<double>(choice.tokens.size());
}

// Returns the positions of the `keep` likeliest of choices[begin, begin + count), likeliest first.
std::vector<size_t> best_of(const std::vector<Choice>& choices, size_t begin, size_t count, size_t keep) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), begin);
  if (keep < count) {
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return mean_logprob(choices[a]) > mean_logprob(choices[b]); });
    order.resize(keep);
  }
  return order;
}

}  // namespace

CompletionWriter::CompletionWriter(AnswerHead head, CompletionShape shape, const Tokenizer& tokenizer)
    : head_(std::move(head)), shape_(std::move(shape)), tokenizer_(tokenizer) {
  head_.object = "text_completion";
}

const std::string& CompletionWriter::echo_of(int32_t row) const {
  static const std::string kNothing;
  const auto prompt = static_cast<size_t>(row / shape_.rows_per_prompt);
  return prompt < shape_.echo.size() ? shape_.echo[prompt] : kNothing;
}

void CompletionWriter::write_opening(int32_t index, std::vector<std::string>& events) {
  const std::string& echo = echo_of(index);
  if (!echo.empty()) events.push_back(event(index, echo, nullptr, nullptr));
}

void CompletionWriter::write_piece(const Piece& piece, std::vector<std::string>& events) {
  if (!piece.content.empty() || !piece.tokens.empty()) {
    events.push_back(event(piece.index, piece.content, &piece.tokens, nullptr));
  }
  if (piece.ending) events.push_back(event(piece.index, {}, nullptr, &*piece.ending));
}

std::string CompletionWriter::event(int32_t index, std::string_view text,
                                    const std::vector<TokenRecord>* tokens, const Ending* ending) {
  JsonWriter json = begin_choice_event(head_);
  json.member("text", text).member("index", index).key("logprobs");
  const auto place = static_cast<size_t>(index);
  if (offsets_.size() <= place) offsets_.resize(place + 1);
  if (shape_.logprobs && tokens && !tokens->empty()) {
    write_legacy_logprobs(json, *tokens, tokenizer_, offsets_[place], false);
  } else {
    json.null();
    offsets_[place] += count_characters(text);
  }
  write_ending_or_null(json, ending, family());
  return end_choice_event(json, shape_.include_usage);
}

void CompletionWriter::write_closing(const Totals& totals, std::vector<std::string>& events) {
  if (shape_.include_usage) events.push_back(usage_event(head_, totals));
}

std::string CompletionWriter::write_whole(std::vector<Choice> choices, const Totals& totals) {
  JsonWriter json;
  write_head(json, head_);
  json.key("choices").begin_array();
  const auto rows = static_cast<size_t>(shape_.rows_per_prompt);
  int32_t index = 0;
  for (size_t begin = 0; begin < choices.size(); begin += rows) {
    const auto keep = static_cast<size_t>(shape_.choices_per_prompt);
    for (const size_t kept : best_of(choices, begin, rows, keep)) {
      write_choice(json, index++, static_cast<int32_t>(kept), std::move(choices[kept]));
    }
  }
  json.end_array();
  write_usage(json, totals);
  return json.end_object().take();
}

void CompletionWriter::write_choice(JsonWriter& json, int32_t index, int32_t row, Choice choice) const {
  const std::string& echo = echo_of(row);
  json.begin_object().member("text", echo + choice.content).member("index", index).key("logprobs");
  if (shape_.logprobs) {
    const bool scored = !choice.prompt_scores.empty();
    // Scores begin with the first id of what was fed, which nothing predicts. An id put before the prompt is
    // context, and no part of its text.
    if (scored && shape_.padded) choice.prompt_scores.erase(choice.prompt_scores.begin());
    int64_t offset = scored ? 0 : count_characters(echo);
    std::vector<TokenRecord> records = std::move(choice.prompt_scores);
    records.insert(records.end(), std::make_move_iterator(choice.tokens.begin()),
                   std::make_move_iterator(choice.tokens.end()));
    write_legacy_logprobs(json, records, tokenizer_, offset, scored && !shape_.padded);
  } else {
    json.null();
  }
  write_ending(json, choice.ending, family());
  json.end_object();
}

}  // namespace fulmar
