// Answers of Anthropic's Messages API, whole and as events: blocks of thinking, text and calls of tools, one
// after the other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/json_writer.h"
#include "server/generate/tool_calls.h"
#include "server/generate/writer.h"

namespace fulmar {

struct MessageFacts {
  std::string id;
  std::string model;               // as the client named it
  int64_t prompt_tokens = 0;       // known before the first token
  std::vector<std::string> stops;  // that the request named
  ExpectedCalls calls;
};

class MessagesWriter : public Writer {
 public:
  explicit MessagesWriter(MessageFacts facts);

  Family family() const override { return Family::anthropic; }
  Framing framing() const override { return Framing::named; }
  void write_opening(int32_t index, std::vector<std::string>& events) override;
  void write_piece(const Piece& piece, std::vector<std::string>& events) override;
  void write_closing(const Totals& totals, std::vector<std::string>& events) override;
  std::string write_whole(std::vector<Choice> choices, const Totals& totals) override;

 private:
  struct Block {
    enum class Kind : uint8_t { thinking, text, call };
    Kind kind;
    std::string text;  // of a call: its input
    ToolCall call;
  };

  void add_text(Block::Kind kind, const std::string& text, std::vector<std::string>& events);
  void add_calls(const TextAndCalls& parts, std::vector<std::string>& events);
  void open_block(Block block, std::vector<std::string>& events);
  void close_block(std::vector<std::string>& events);
  void write_block(JsonWriter& json, const Block& block, bool whole) const;
  JsonWriter begin_event(std::string_view type) const;
  JsonWriter begin_delta(std::string_view type) const;
  void begin_message(JsonWriter& json) const;
  void write_reason(JsonWriter& json) const;

  const MessageFacts facts_;
  std::optional<ToolCallSplitter> splitter_;  // only with tools
  std::vector<Block> blocks_;                 // the last one may be open
  bool open_ = false;
  Ending ending_;
};

}  // namespace fulmar
