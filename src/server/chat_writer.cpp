// The shapes of chat answers.
#include "server/chat_writer.h"

#include "server/logprobs.h"

namespace fulmar {

// One event's share of a choice; null members are left out.
struct ChatWriter::Delta {
  bool role = false;
  const std::string* reasoning = nullptr;
  const std::string* content = nullptr;
  const std::vector<TokenRecord>* tokens = nullptr;
  const Ending* ending = nullptr;
};

ChatWriter::ChatWriter(AnswerHead head, ChatShape shape, const Tokenizer& tokenizer)
    : head_(std::move(head)), shape_(shape), tokenizer_(tokenizer) {
  head_.object = "chat.completion.chunk";
}

void ChatWriter::write_opening(int32_t index, std::vector<std::string>& events) {
  static const std::string kNothing;
  events.push_back(event(index, {.role = true, .content = &kNothing}));
}

void ChatWriter::write_piece(const Piece& piece, std::vector<std::string>& events) {
  if (!piece.reasoning.empty()) {
    events.push_back(event(piece.index, {.reasoning = &piece.reasoning}));
  }
  if (!piece.content.empty() || !piece.tokens.empty()) {
    events.push_back(event(piece.index, {.content = &piece.content, .tokens = &piece.tokens}));
  }
  if (piece.ending) events.push_back(event(piece.index, {.ending = &*piece.ending}));
}

std::string ChatWriter::event(int32_t index, const Delta& delta) const {
  JsonWriter json;
  write_head(json, head_);
  if (shape_.service_tier) json.member("service_tier", "default");
  json.key("choices").begin_array().begin_object().member("index", index).key("delta").begin_object();
  if (delta.role) json.member("role", "assistant");
  if (delta.reasoning) json.member("reasoning_content", *delta.reasoning);
  if (delta.content) json.member("content", *delta.content);
  json.end_object();
  if (shape_.logprobs && delta.tokens && !delta.tokens->empty()) {
    json.key("logprobs");
    write_content_logprobs(json, *delta.tokens, tokenizer_);
  } else {
    json.key("logprobs").null();
  }
  if (delta.ending) {
    write_ending(json, *delta.ending, family());
  } else {
    json.key("finish_reason").null();
  }
  json.end_object().end_array();
  if (shape_.include_usage) json.key("usage").null();
  return json.end_object().take();
}

void ChatWriter::write_closing(const Totals& totals, std::vector<std::string>& events) {
  if (!shape_.include_usage) return;
  JsonWriter json;
  write_head(json, head_);
  json.key("choices").begin_array().end_array();
  write_usage(json, totals);
  events.push_back(json.end_object().take());
}

std::string ChatWriter::write_whole(std::vector<Choice> choices, const Totals& totals) {
  JsonWriter json;
  write_head(json, {head_.id, "chat.completion", head_.created, head_.model});
  if (shape_.service_tier) json.member("service_tier", "default");
  json.key("choices").begin_array();
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = choices[i];
    json.begin_object().member("index", i).key("message").begin_object().member("role", "assistant");
    if (!choice.reasoning.empty()) json.member("reasoning_content", choice.reasoning);
    json.member("content", choice.content).end_object();
    json.key("logprobs");
    if (shape_.logprobs) {
      write_content_logprobs(json, choice.tokens, tokenizer_);
    } else {
      json.null();
    }
    write_ending(json, choice.ending, family());
    json.end_object();
  }
  json.end_array();
  write_usage(json, totals);
  return json.end_object().take();
}

}  // namespace fulmar
