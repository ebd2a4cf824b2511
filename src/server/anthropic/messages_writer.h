// Answers of Anthropic's Messages API, whole and as events: a sequence of blocks with thinking, text and tool
// calls.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/json_writer.h"
#include "server/core/shape.h"
#include "server/generate/tool_calls.h"
#include "server/generate/writer.h"
#include "server/generate/writer_parts.h"

namespace fulmar {

struct MessageFacts {
  std::string id;
  std::string model;               // as the client named it
  int64_t prompt_tokens = 0;       // known before the first token
  std::vector<std::string> stops;  // that the request named
  ExpectedCalls calls;
};

inline constexpr JsonShape kBlock{
    "anthropic.block", R"({"|":[{"type":"=text","text":"string"},)"
                       R"({"type":"=thinking","thinking":"string","signature":"string"},)"
                       R"({"type":"=tool_use","id":"string","name":"string","input":{"*":"any"}}]})"};
inline constexpr JsonShape kMessageUsage{
    "anthropic.usage",
    R"({"input_tokens":"integer","cache_creation_input_tokens":"integer",)"
    R"("cache_read_input_tokens":"integer","output_tokens":"integer","adapter?":"@adapter"})",
    &kAdapterTold};
inline constexpr JsonShape kMessage{
    "anthropic.message",
    R"({"id":"string","type":"=message","role":"=assistant","model":"string",)"
    R"("content":["@anthropic.block"],)"
    R"("stop_reason":"=end_turn|=max_tokens|=stop_sequence|=tool_use|null",)"
    R"("stop_sequence":"string|null","usage":"@anthropic.usage"})",
    {&kBlock, &kMessageUsage}};
inline constexpr JsonShape kMessageEvent{
    "anthropic.event",
    R"({"|":[{"type":"=message_start","message":"@anthropic.message"},)"
    R"({"type":"=content_block_start","index":"integer","content_block":"@anthropic.block"},)"
    R"({"type":"=content_block_delta","index":"integer","delta":{"|":[)"
    R"({"type":"=text_delta","text":"string"},{"type":"=thinking_delta","thinking":"string"},)"
    R"({"type":"=signature_delta","signature":"string"},)"
    R"({"type":"=input_json_delta","partial_json":"string"}]}},)"
    R"({"type":"=content_block_stop","index":"integer"},)"
    R"({"type":"=message_delta","delta":{"stop_reason":"string","stop_sequence":"string|null"},)"
    R"("usage":"@anthropic.usage"},{"type":"=message_stop"}]})",
    {&kMessage, &kBlock, &kMessageUsage}};

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
  std::string_view stop_reason() const;
  void write_reason(JsonWriter& json) const;

  const MessageFacts facts_;
  std::optional<ToolCallSplitter> splitter_;  // only with tools
  std::vector<Block> blocks_;                 // the last one may be open
  bool open_ = false;
  Ending ending_;
};

}  // namespace fulmar
