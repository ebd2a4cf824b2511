#include "server/anthropic/messages_writer.h"

#include <algorithm>

#include "net/json_prefix.h"

namespace fulmar {
namespace {

// Returns a call's id as this API spells it, with "toolu_" at its beginning.
std::string public_id(const std::string& id) {
  constexpr std::string_view kOwn = "call_";
  return "toolu_" + (id.starts_with(kOwn) ? id.substr(kOwn.size()) : id);
}

void write_message_usage(JsonWriter& json, const Totals& totals) {
  json.key("usage").begin_object().member("input_tokens", totals.prompt_tokens - totals.cached_tokens);
  json.member("cache_creation_input_tokens", 0).member("cache_read_input_tokens", totals.cached_tokens);
  json.member("output_tokens", totals.completion_tokens);
  write_adapter(json, totals.adapter);
  json.end_object();
}

}  // namespace

MessagesWriter::MessagesWriter(MessageFacts facts) : facts_(std::move(facts)) {
  if (!facts_.calls.names.empty()) splitter_.emplace(facts_.calls);
}

JsonWriter MessagesWriter::begin_event(std::string_view type) const {
  JsonWriter json;
  json.begin_object().member("type", type);
  return json;
}

// Begins an event with a delta of the last block.
JsonWriter MessagesWriter::begin_delta(std::string_view type) const {
  JsonWriter json = begin_event("content_block_delta");
  json.member("index", blocks_.size() - 1).key("delta").begin_object().member("type", type);
  return json;
}

void MessagesWriter::begin_message(JsonWriter& json) const {
  json.begin_object().member("id", facts_.id).member("type", "message").member("role", "assistant");
  json.member("model", facts_.model).key("content").begin_array();
}

// Writes a block. `whole`: with its content.
void MessagesWriter::write_block(JsonWriter& json, const Block& block, bool whole) const {
  const std::string text = whole ? block.text : std::string();
  json.begin_object();
  switch (block.kind) {
    case Block::Kind::thinking:
      json.member("type", "thinking").member("thinking", text).member("signature", "");
      break;
    case Block::Kind::text:
      json.member("type", "text").member("text", text);
      break;
    case Block::Kind::call:
      json.member("type", "tool_use").member("id", public_id(block.call.id)).member("name", block.call.name);
      json.key("input").raw(whole ? block.text : "{}");
      break;
  }
  json.end_object();
}

void MessagesWriter::open_block(Block block, std::vector<std::string>& events) {
  close_block(events);
  blocks_.push_back(std::move(block));
  open_ = true;
  JsonWriter json = begin_event("content_block_start");
  json.member("index", blocks_.size() - 1).key("content_block");
  write_block(json, blocks_.back(), false);
  events.push_back(json.end_object().take());
}

void MessagesWriter::close_block(std::vector<std::string>& events) {
  if (!open_) return;
  open_ = false;
  if (blocks_.back().kind == Block::Kind::thinking) {
    JsonWriter json = begin_delta("signature_delta");
    events.push_back(json.member("signature", "").end_object().end_object().take());
  }
  JsonWriter json = begin_event("content_block_stop");
  events.push_back(json.member("index", blocks_.size() - 1).end_object().take());
}

void MessagesWriter::add_text(Block::Kind kind, const std::string& text, std::vector<std::string>& events) {
  if (text.empty()) return;
  if (!open_ || blocks_.back().kind != kind) open_block({.kind = kind, .text = {}, .call = {}}, events);
  blocks_.back().text += text;
  const bool thinking = kind == Block::Kind::thinking;
  JsonWriter json = begin_delta(thinking ? "thinking_delta" : "text_delta");
  events.push_back(json.member(thinking ? "thinking" : "text", text).end_object().end_object().take());
}

void MessagesWriter::add_calls(const TextAndCalls& parts, std::vector<std::string>& events) {
  add_text(Block::Kind::text, parts.content, events);
  for (const ToolCall& call : parts.calls) {
    // An input is an object even of a call that was cut.
    open_block({.kind = Block::Kind::call, .text = read_json_prefix(call.arguments).completed, .call = call},
               events);
    JsonWriter json = begin_delta("input_json_delta");
    events.push_back(json.member("partial_json", call.arguments).end_object().end_object().take());
    close_block(events);
  }
}

// Returns the member "stop_reason". An answer that was cut is told like one that max_tokens has cut: clients
// know no other word of this API for an answer without its end that they are not to go on with by themselves.
std::string_view MessagesWriter::stop_reason() const {
  const bool called = std::any_of(blocks_.begin(), blocks_.end(),
                                  [](const Block& block) { return block.kind == Block::Kind::call; });
  const auto& stops = facts_.stops;
  switch (ending_.reason) {
    case FinishReason::stop:
      if (ending_.stop_text && std::find(stops.begin(), stops.end(), *ending_.stop_text) != stops.end())
        return "stop_sequence";
      return called ? "tool_use" : "end_turn";
    case FinishReason::length:
    case FinishReason::cancelled:
    case FinishReason::paused:
    case FinishReason::stopping:
    case FinishReason::failed:
      break;
  }
  return "max_tokens";
}

// Writes the members "stop_reason" and "stop_sequence".
void MessagesWriter::write_reason(JsonWriter& json) const {
  const std::string_view reason = stop_reason();
  json.member("stop_reason", reason).key("stop_sequence");
  reason == "stop_sequence" ? json.value(*ending_.stop_text) : json.null();
}

void MessagesWriter::write_opening(int32_t, std::vector<std::string>& events) {
  JsonWriter json = begin_event("message_start");
  json.key("message");
  begin_message(json);
  json.end_array().key("stop_reason").null().key("stop_sequence").null();
  write_message_usage(json, {.prompt_tokens = facts_.prompt_tokens});
  events.push_back(json.end_object().end_object().take());
}

void MessagesWriter::write_piece(const Piece& piece, std::vector<std::string>& events) {
  if (piece.ending) ending_ = *piece.ending;
  add_text(Block::Kind::thinking, piece.reasoning, events);
  if (!splitter_) {
    add_text(Block::Kind::text, piece.content, events);
  } else {
    add_calls(splitter_->feed(piece.content, piece.ending), events);
  }
  if (piece.ending) close_block(events);
}

void MessagesWriter::write_closing(const Totals& totals, std::vector<std::string>& events) {
  JsonWriter json = begin_event("message_delta");
  json.key("delta").begin_object();
  write_reason(json);
  json.end_object();
  write_message_usage(json, totals);
  events.push_back(json.end_object().take());
  events.push_back(begin_event("message_stop").end_object().take());
}

// Builds the blocks as a stream does and drops the events.
std::string MessagesWriter::write_whole(std::vector<Choice> choices, const Totals& totals) {
  std::vector<std::string> unused;
  write_piece(whole_piece(std::move(choices.front())), unused);
  JsonWriter json;
  begin_message(json);
  for (const Block& block : blocks_) write_block(json, block, true);
  json.end_array();
  write_reason(json);
  write_message_usage(json, totals);
  return json.end_object().take();
}

}  // namespace fulmar
