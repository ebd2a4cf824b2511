// Answers of the openai family to `messages` (docs/http.md, "Chats").
#pragma once

#include <map>

#include "server/core/shape.h"
#include "server/generate/logprobs.h"
#include "server/generate/tool_calls.h"
#include "server/generate/writer_parts.h"
#include "text/tokenizer.h"

namespace fulmar {

struct ChatShape {
  bool logprobs = false;
  bool include_usage = false;
  bool service_tier = false;  // the request named one: answered with "default"
  ExpectedCalls calls;
  bool thinks_in_text = false;  // the content begins in a think block, in which no call counts
};

// Separates calls from the text of one choice while it streams.
class ChoiceParts {
 public:
  explicit ChoiceParts(const ChatShape& shape) : thinking_(shape.thinks_in_text), calls_(shape.calls) {}

  // Takes more text and returns what is certain, as ToolCallSplitter::feed() does.
  TextAndCalls feed(std::string_view text, const std::optional<Ending>& ending);
  size_t count() const { return calls_.count(); }

 private:
  bool thinking_;
  std::string held_;  // may begin the think block's end
  ToolCallSplitter calls_;
};

inline constexpr JsonShape kChatAnswer{
    "chat.completion",
    R"({"id":"string","object":"=chat.completion","created":"integer","model":"string",)"
    R"("service_tier?":"=default","choices":[{"index":"integer","message":{"role":"=assistant",)"
    R"("reasoning_content?":"string","content":"string|null","refusal":null,"tool_calls?":[)"
    R"({"id":"string","type":"=function","function":{"name":"string","arguments":"string"}}]},)"
    R"("logprobs":"@content_logprobs|null","finish_reason":"=stop|=length|=tool_calls|=abort",)"
    R"("stop_reason?":"string|integer"}],"usage":"@usage","warnings?":["string"]})",
    {&kUsage, &kContentLogprobs}};
inline constexpr JsonShape kChatEvent{
    "chat.completion.chunk",
    R"({"id":"string","object":"=chat.completion.chunk","created":"integer","model":"string",)"
    R"("service_tier?":"=default","choices":[{"index":"integer","delta":{"role?":"=assistant",)"
    R"("reasoning_content?":"string","content?":"string|null","tool_calls?":[{"index":"integer",)"
    R"("id?":"string","type?":"=function","function":{"name?":"string","arguments":"string"}}]},)"
    R"("logprobs":"@content_logprobs|null","finish_reason":"=stop|=length|=tool_calls|=abort|null",)"
    R"("stop_reason?":"string|integer"}],"usage?":"@usage|null","warnings?":["string"]})",
    {&kUsage, &kContentLogprobs}};

class ChatWriter : public Writer {
 public:
  // Keeps a reference to the tokenizer. `head`: its object is ignored.
  ChatWriter(AnswerHead head, ChatShape shape, const Tokenizer& tokenizer);

  Family family() const override { return Family::openai; }
  void write_opening(int32_t index, std::vector<std::string>& events) override;
  void write_piece(const Piece& piece, std::vector<std::string>& events) override;
  void write_closing(const Totals& totals, std::vector<std::string>& events) override;
  std::string write_whole(std::vector<Choice> choices, const Totals& totals) override;

 private:
  struct Delta;
  ChoiceParts& parts_of(int32_t index);
  void write_text_and_calls(const Piece& piece, std::vector<std::string>& events);
  std::string event(int32_t index, const Delta& delta) const;

  AnswerHead head_;
  const ChatShape shape_;
  const Tokenizer& tokenizer_;
  std::map<int32_t, ChoiceParts> parts_;  // by choice; only with tools
};

}  // namespace fulmar
