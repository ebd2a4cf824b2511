// Answers of Ollama's chat and generate routes: one JSON text per line, the last one with the counts and
// durations.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "net/json_writer.h"
#include "server/core/shape.h"
#include "server/generate/tool_calls.h"
#include "server/generate/writer.h"
#include "server/generate/writer_parts.h"

namespace fulmar {

struct OllamaFacts {
  std::string model;  // as the client named it
  bool chat = false;  // the text lies in "message", else in "response"
  ExpectedCalls calls;
};

// Both of whole answers and of lines. Chats have "message", prompts "response".
inline constexpr JsonShape kOllamaAnswer{
    "ollama.answer",
    R"({"model":"string","created_at":"string","message?":{"role":"=assistant","content":"string",)"
    R"("thinking?":"string","tool_calls?":[{"id":"string","function":{"index":"integer",)"
    R"("name":"string","arguments":{"*":"any"}}}]},"response?":"string","thinking?":"string",)"
    R"("done":"boolean","done_reason?":"=stop|=length|=cancelled|=paused|=server_stopping|=load","total_duration?":"integer",)"
    R"("load_duration?":"integer","prompt_eval_count?":"integer","prompt_eval_duration?":"integer",)"
    R"("eval_count?":"integer","eval_duration?":"integer","adapter?":"@adapter","warnings?":["string"]})",
    &kAdapterTold};

class OllamaWriter : public Writer {
 public:
  explicit OllamaWriter(OllamaFacts facts);

  Family family() const override { return Family::native; }
  Framing framing() const override { return Framing::lines; }
  void write_opening(int32_t, std::vector<std::string>&) override {}
  void write_piece(const Piece& piece, std::vector<std::string>& events) override;
  void write_closing(const Totals& totals, std::vector<std::string>& events) override;
  std::string write_whole(std::vector<Choice> choices, const Totals& totals) override;

 private:
  // One line's share of an answer.
  struct LineContent {
    std::string thinking, content;
    std::vector<ToolCall> calls;
    bool empty() const { return thinking.empty() && content.empty() && calls.empty(); }
  };

  LineContent part_of(const std::string& reasoning, const std::string& content,
                      const std::optional<Ending>& ending);
  JsonWriter begin_line(const LineContent& part) const;
  std::string last_line(const LineContent& part, const Totals& totals) const;

  const OllamaFacts facts_;
  std::optional<ToolCallSplitter> splitter_;  // only with tools
  FinishReason reason_ = FinishReason::stop;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> first_;  // piece of a stream
};

}  // namespace fulmar
