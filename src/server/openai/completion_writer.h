// Answers of the openai family to `prompt` (docs/http.md, "Completions").
#pragma once

#include "server/core/shape.h"
#include "server/generate/logprobs.h"
#include "server/generate/writer_parts.h"
#include "text/tokenizer.h"

namespace fulmar {

struct CompletionShape {
  bool logprobs = false;
  bool include_usage = false;
  int32_t choices_per_prompt = 1;  // n
  int32_t rows_per_prompt = 1;     // best_of; the likeliest n of them are kept
  std::vector<std::string> echo;   // text to put in front, by prompt; empty: none
  bool padded = false;             // an id that is no part of the text goes before each prompt
};

// Both of whole answers and of events.
inline constexpr JsonShape kCompletionAnswer{
    "text_completion",
    R"({"id":"string","object":"=text_completion","created":"integer","model":"string",)"
    R"("choices":[{"text":"string","index":"integer","logprobs":"@legacy_logprobs|null",)"
    R"("finish_reason":"=stop|=length|=abort|null","stop_reason?":"string|integer"}],)"
    R"("usage?":"@usage|null","warnings?":["string"]})",
    {&kUsage, &kLegacyLogprobs}};

class CompletionWriter : public Writer {
 public:
  // Keeps a reference to the tokenizer. `head`: its object is ignored.
  CompletionWriter(AnswerHead head, CompletionShape shape, const Tokenizer& tokenizer);

  Family family() const override { return Family::openai; }
  void write_opening(int32_t index, std::vector<std::string>& events) override;
  void write_piece(const Piece& piece, std::vector<std::string>& events) override;
  void write_closing(const Totals& totals, std::vector<std::string>& events) override;
  std::string write_whole(std::vector<Choice> choices, const Totals& totals) override;

 private:
  const std::string& echo_of(int32_t row) const;
  std::string event(int32_t index, std::string_view text, const std::vector<TokenRecord>* tokens,
                    const Ending* ending);
  void write_choice(JsonWriter& json, int32_t index, int32_t row, Choice choice) const;

  AnswerHead head_;
  const CompletionShape shape_;
  const Tokenizer& tokenizer_;
  std::vector<int64_t> offsets_;  // of a streamed choice: characters written so far
};

}  // namespace fulmar
