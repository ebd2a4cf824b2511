// The shapes of responses and of their events. A stream's payloads name their kind in `type`, so that event
// lines are not needed (http-api.md 2.6).
#include "server/responses_writer.h"

namespace fulmar {

ResponsesWriter::ResponsesWriter(std::shared_ptr<Service> service, ResponseFacts facts)
    : service_(std::move(service)), facts_(std::move(facts)), item_id_("msg_" + facts_.id.substr(5)) {}

std::string_view ResponsesWriter::status() const {
  switch (ending_.reason) {
    case FinishReason::length:
      return "incomplete";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::failed:
      return "failed";
    case FinishReason::stop:
      break;
  }
  return "completed";
}

void ResponsesWriter::write_part(JsonWriter& json, const std::string& text) const {
  json.begin_object().member("type", "output_text").member("text", text);
  json.key("annotations").begin_array().end_array().end_object();
}

void ResponsesWriter::write_item(JsonWriter& json, std::string_view status) const {
  json.begin_object().member("id", item_id_).member("type", "message").member("status", status);
  json.member("role", "assistant").key("content").begin_array();
  if (status != "in_progress") write_part(json, text_);
  json.end_array().end_object();
}

void ResponsesWriter::write_response(JsonWriter& json, std::string_view status, const Totals* totals) const {
  json.begin_object().member("id", facts_.id).member("object", "response");
  json.member("created_at", facts_.created).member("status", status).key("error").null();
  json.key("incomplete_details");
  if (status == "incomplete") {
    json.begin_object().member("reason", "max_output_tokens").end_object();
  } else {
    json.null();
  }
  const auto text_or_null = [&](std::string_view name, const std::string& text) {
    json.key(name);
    text.empty() ? json.null() : json.value(text);
  };
  text_or_null("instructions", facts_.instructions);
  json.member("max_output_tokens", facts_.max_tokens).member("model", facts_.model);
  json.key("output").begin_array();
  if (totals && !reasoning_.empty()) {
    json.begin_object().member("id", "rs_" + facts_.id.substr(5)).member("type", "reasoning");
    json.key("summary").begin_array().end_array().key("content").begin_array().begin_object();
    json.member("type", "reasoning_text").member("text", reasoning_).end_object().end_array().end_object();
  }
  if (totals) write_item(json, status == "completed" ? "completed" : "incomplete");
  json.end_array().member("parallel_tool_calls", true);
  text_or_null("previous_response_id", facts_.previous);
  json.member("store", facts_.store).member("temperature", facts_.temperature);
  json.key("text").begin_object().key("format").begin_object().member("type", facts_.format);
  json.end_object().end_object().member("tool_choice", "auto").key("tools").begin_array().end_array();
  json.member("top_p", facts_.top_p).member("truncation", "disabled").key("usage");
  if (totals) {
    json.begin_object().member("input_tokens", totals->prompt_tokens).key("input_tokens_details");
    json.begin_object().member("cached_tokens", totals->cached_tokens).end_object();
    json.member("output_tokens", totals->completion_tokens).key("output_tokens_details");
    json.begin_object().member("reasoning_tokens", 0).end_object();
    json.member("total_tokens", totals->prompt_tokens + totals->completion_tokens).end_object();
  } else {
    json.null();
  }
  json.key("metadata").begin_object().end_object().end_object();
}

JsonWriter ResponsesWriter::begin_event(std::string_view type) {
  JsonWriter json;
  json.begin_object().member("type", type).member("sequence_number", sequence_++);
  return json;
}

void ResponsesWriter::write_opening(int32_t, std::vector<std::string>& events) {
  for (const std::string_view type : {"response.created", "response.in_progress"}) {
    JsonWriter json = begin_event(type);
    json.key("response");
    write_response(json, "in_progress", nullptr);
    events.push_back(json.end_object().take());
  }
  JsonWriter item = begin_event("response.output_item.added");
  item.member("output_index", 0).key("item");
  write_item(item, "in_progress");
  events.push_back(item.end_object().take());
  JsonWriter part = begin_event("response.content_part.added");
  part.member("item_id", item_id_).member("output_index", 0).member("content_index", 0).key("part");
  write_part(part, {});
  events.push_back(part.end_object().take());
}

void ResponsesWriter::write_piece(const Piece& piece, std::vector<std::string>& events) {
  text_ += piece.content;
  if (piece.ending) ending_ = *piece.ending;
  if (piece.content.empty()) return;
  JsonWriter json = begin_event("response.output_text.delta");
  json.member("item_id", item_id_).member("output_index", 0).member("content_index", 0);
  json.member("delta", piece.content).key("logprobs").begin_array().end_array();
  events.push_back(json.end_object().take());
}

void ResponsesWriter::write_closing(const Totals& totals, std::vector<std::string>& events) {
  JsonWriter text = begin_event("response.output_text.done");
  text.member("item_id", item_id_).member("output_index", 0).member("content_index", 0);
  text.member("text", text_).key("logprobs").begin_array().end_array();
  events.push_back(text.end_object().take());
  JsonWriter part = begin_event("response.content_part.done");
  part.member("item_id", item_id_).member("output_index", 0).member("content_index", 0).key("part");
  write_part(part, text_);
  events.push_back(part.end_object().take());
  JsonWriter item = begin_event("response.output_item.done");
  item.member("output_index", 0).key("item");
  write_item(item, status() == "completed" ? "completed" : "incomplete");
  events.push_back(item.end_object().take());
  JsonWriter whole = begin_event(status() == "completed" ? "response.completed" : "response.incomplete");
  whole.key("response").raw(finish(totals));
  events.push_back(whole.end_object().take());
}

std::string ResponsesWriter::write_whole(std::vector<Choice> choices, const Totals& totals) {
  text_ = std::move(choices.front().content);
  reasoning_ = std::move(choices.front().reasoning);
  ending_ = choices.front().ending;
  return finish(totals);
}

// The whole answer, stored where asked for. A cancelled turn leaves no state behind, hence nothing to
// continue.
std::string ResponsesWriter::finish(const Totals& totals) {
  JsonWriter json;
  write_response(json, status(), &totals);
  std::string text = json.take();
  if (facts_.store && ending_.reason != FinishReason::cancelled) {
    service_->responses.put({facts_.id, facts_.model_id, text, facts_.created});
  }
  return text;
}

}  // namespace fulmar
