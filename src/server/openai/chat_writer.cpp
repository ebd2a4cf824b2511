// Writes the shapes of chat answers.
#include "server/openai/chat_writer.h"

#include <utility>

#include "server/generate/logprobs.h"
#include "text/stop_matcher.h"

namespace fulmar {

// One event's share of a choice; null members are left out.
struct ChatWriter::Delta {
  bool role = false;
  const std::string* reasoning = nullptr;
  const std::string* content = nullptr;
  const std::vector<TokenRecord>* tokens = nullptr;
  const Ending* ending = nullptr;
  const ToolCall* call = nullptr;
  size_t call_index = 0;
  bool call_opens = false;  // the call's name; otherwise its arguments
  bool called = false;      // there have been whole calls: they are the reason to stop
};

namespace {

constexpr std::string_view kThinkEnd = "</think>";

void write_finish(JsonWriter& json, const Ending& ending, bool called, Family family) {
  if (called && ending.reason == FinishReason::stop) {
    json.member("finish_reason", "tool_calls");
  } else {
    write_ending(json, ending, family);
  }
}

void write_call(JsonWriter& json, const ToolCall& call) {
  json.begin_object().member("id", call.id).member("type", "function").key("function");
  json.begin_object().member("name", call.name).member("arguments", call.arguments).end_object().end_object();
}

// Writes a call's part of a stream: first (`opens`) its name, then its arguments.
void write_call_delta(JsonWriter& json, const ToolCall& call, size_t index, bool opens) {
  json.key("tool_calls").begin_array().begin_object().member("index", index);
  if (opens) json.member("id", call.id).member("type", "function");
  json.key("function").begin_object();
  if (opens) json.member("name", call.name);
  json.member("arguments", opens ? std::string() : call.arguments).end_object().end_object().end_array();
}

}  // namespace

TextAndCalls ChoiceParts::feed(std::string_view text, const std::optional<Ending>& ending) {
  if (!thinking_) return calls_.feed(text, ending);
  held_ += text;
  const size_t end = held_.find(kThinkEnd);
  thinking_ = end == std::string::npos;
  size_t taken = thinking_ ? held_.size() : end + kThinkEnd.size();
  if (thinking_ && !ending) taken -= begun_at_end(held_, kThinkEnd);
  const std::string thought = held_.substr(0, taken);
  held_.erase(0, taken);
  TextAndCalls parts;
  if (!thinking_) parts = calls_.feed(std::exchange(held_, {}), ending);
  parts.content.insert(0, thought);
  return parts;
}

ChatWriter::ChatWriter(AnswerHead head, ChatShape shape, const Tokenizer& tokenizer)
    : head_(std::move(head)), shape_(std::move(shape)), tokenizer_(tokenizer) {
  head_.object = "chat.completion.chunk";
  if (shape_.service_tier) head_.service_tier = "default";
}

// Opens a choice. With functions its content is null at first, because the answer may consist of calls alone.
void ChatWriter::write_opening(int32_t index, std::vector<std::string>& events) {
  static const std::string kNothing;
  events.push_back(event(index, {.role = true, .content = shape_.calls.names.empty() ? &kNothing : nullptr}));
}

void ChatWriter::write_piece(const Piece& piece, std::vector<std::string>& events) {
  if (!piece.reasoning.empty()) {
    events.push_back(event(piece.index, {.reasoning = &piece.reasoning}));
  }
  if (!shape_.calls.names.empty()) {
    write_text_and_calls(piece, events);
  } else if (!piece.content.empty() || !piece.tokens.empty()) {
    events.push_back(event(piece.index, {.content = &piece.content, .tokens = &piece.tokens}));
  }
  if (!piece.ending) return;
  const bool called = !shape_.calls.names.empty() && parts_of(piece.index).count() > 0;
  events.push_back(event(piece.index, {.ending = &*piece.ending, .called = called}));
}

ChoiceParts& ChatWriter::parts_of(int32_t index) { return parts_.try_emplace(index, shape_).first->second; }

void ChatWriter::write_text_and_calls(const Piece& piece, std::vector<std::string>& events) {
  ChoiceParts& splitter = parts_of(piece.index);
  size_t index = splitter.count();
  const TextAndCalls parts = splitter.feed(piece.content, piece.ending);
  if (!parts.content.empty() || !piece.tokens.empty()) {
    events.push_back(event(piece.index, {.content = &parts.content, .tokens = &piece.tokens}));
  }
  for (const ToolCall& call : parts.calls) {
    events.push_back(event(piece.index, {.call = &call, .call_index = index, .call_opens = true}));
    events.push_back(event(piece.index, {.call = &call, .call_index = index}));
    ++index;
  }
}

std::string ChatWriter::event(int32_t index, const Delta& delta) const {
  JsonWriter json = begin_choice_event(head_);
  json.member("index", index).key("delta").begin_object();
  if (delta.role) json.member("role", "assistant");
  if (delta.reasoning) json.member("reasoning_content", *delta.reasoning);
  if (delta.content) {
    json.member("content", *delta.content);
  } else if (delta.role) {
    json.key("content").null();
  }
  if (delta.call) write_call_delta(json, *delta.call, delta.call_index, delta.call_opens);
  json.end_object();
  if (shape_.logprobs && delta.tokens && !delta.tokens->empty()) {
    json.key("logprobs");
    write_content_logprobs(json, *delta.tokens, tokenizer_);
  } else {
    json.key("logprobs").null();
  }
  if (delta.ending) {
    write_finish(json, *delta.ending, delta.called, family());
  } else {
    write_ending_or_null(json, nullptr, family());
  }
  return end_choice_event(json, shape_.include_usage);
}

void ChatWriter::write_closing(const Totals& totals, std::vector<std::string>& events) {
  if (shape_.include_usage) events.push_back(usage_event(head_, totals));
}

std::string ChatWriter::write_whole(std::vector<Choice> choices, const Totals& totals) {
  JsonWriter json;
  AnswerHead whole = head_;
  whole.object = "chat.completion";
  write_head(json, whole);
  json.key("choices").begin_array();
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = choices[i];
    json.begin_object().member("index", i).key("message").begin_object().member("role", "assistant");
    if (!choice.reasoning.empty()) json.member("reasoning_content", choice.reasoning);
    TextAndCalls parts;
    ChoiceParts splitter(shape_);
    if (shape_.calls.names.empty()) {
      parts.content = choice.content;
    } else {
      parts = splitter.feed(choice.content, choice.ending);
    }
    if (parts.content.empty() && !parts.calls.empty()) {
      json.key("content").null();
    } else {
      json.member("content", parts.content);
    }
    json.key("refusal").null();
    if (!parts.calls.empty()) {
      json.key("tool_calls").begin_array();
      for (const ToolCall& call : parts.calls) write_call(json, call);
      json.end_array();
    }
    json.end_object();
    json.key("logprobs");
    if (shape_.logprobs) {
      write_content_logprobs(json, choice.tokens, tokenizer_);
    } else {
      json.null();
    }
    write_finish(json, choice.ending, splitter.count() > 0, family());
    json.end_object();
  }
  json.end_array();
  write_usage(json, totals);
  return json.end_object().take();
}

}  // namespace fulmar
