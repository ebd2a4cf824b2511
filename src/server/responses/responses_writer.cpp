// Writes the shapes of responses and of their events. Each event names its kind in `type`, so that no event
// lines are needed (docs/http.md, "Streams").
#include "server/responses/responses_writer.h"

#include <fmt/format.h>

#include <utility>

#include "server/generate/writer_parts.h"
#include "server/responses/family.h"

namespace fulmar {

int64_t ResponseFacts::bytes() const {
  size_t sum = model.size() + instructions.size() + tools.size();
  for (const std::string* text : {&input, &tools_sent, &tool_choice, &reasoning, &metadata})
    sum += text->size();
  return static_cast<int64_t>(sum);
}

namespace {

// How a response tells that its row has ended.
struct ResponseEnd {
  std::string_view status;
  std::string_view why = {};  // member "reason" of "incomplete_details"
};

ResponseEnd end_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      break;
    case FinishReason::length:
      return {"incomplete", "max_output_tokens"};
    case FinishReason::cancelled:
      return {"cancelled"};
    case FinishReason::paused:
    case FinishReason::stopping:
      return {"incomplete", cut_text(reason)};
    case FinishReason::failed:
      return {"failed"};
  }
  return {"completed"};
}

}  // namespace

ResponsesWriter::ResponsesWriter(std::shared_ptr<Service> service, std::shared_ptr<const ResponseFacts> facts,
                                 std::shared_ptr<PausedResponse> paused)
    : service_(std::move(service)), paused_(std::move(paused)), held_facts_(std::move(facts)) {
  if (!facts_.calls.names.empty()) splitter_.emplace(facts_.calls);
}

std::string_view ResponsesWriter::status() const {
  return end_of(fault_ ? FinishReason::failed : ending_.reason).status;
}

// ---- items

void ResponsesWriter::write_part(JsonWriter& json, const Item& item, const std::string& text) const {
  const bool reasoning = item.kind == Item::Kind::reasoning;
  const std::string_view thought = facts_.summary ? "summary_text" : "reasoning_text";
  json.begin_object().member("type", reasoning ? thought : "output_text").member("text", text);
  if (!reasoning) json.key("annotations").begin_array().end_array();
  json.end_object();
}

// Writes an item. `whole`: with its content.
void ResponsesWriter::write_item(JsonWriter& json, const Item& item, bool whole) const {
  const std::string_view state = !whole                    ? "in_progress"
                                 : status() == "completed" ? "completed"
                                                           : "incomplete";
  json.begin_object().member("id", item.id);
  switch (item.kind) {
    case Item::Kind::reasoning:
      json.member("type", "reasoning").key("summary").begin_array();
      if (facts_.summary && whole) write_part(json, item, item.text);
      json.end_array();
      if (facts_.summary) {
        json.end_object();
        return;
      }
      break;
    case Item::Kind::message:
      json.member("type", "message").member("status", state).member("role", "assistant");
      break;
    case Item::Kind::call:
      json.member("type", "function_call");
      json.member("status", !whole ? "in_progress" : item.cut ? "incomplete" : "completed");
      json.member("call_id", item.call.id).member("name", item.call.name);
      json.member("arguments", whole ? item.text : std::string()).end_object();
      return;
  }
  json.key("content").begin_array();
  if (whole) write_part(json, item, item.text);
  json.end_array().end_object();
}

std::string ResponsesWriter::part_event(const Item& item, std::string_view what) const {
  const bool summary = item.kind == Item::Kind::reasoning && facts_.summary;
  return fmt::format("response.{}.{}", summary ? "reasoning_summary_part" : "content_part", what);
}

std::string ResponsesWriter::text_event(const Item& item, std::string_view what) const {
  std::string_view text = "output_text";
  if (item.kind == Item::Kind::reasoning) text = facts_.summary ? "reasoning_summary_text" : "reasoning_text";
  return fmt::format("response.{}.{}", text, what);
}

JsonWriter ResponsesWriter::begin_event(std::string_view type) {
  JsonWriter json;
  json.begin_object().member("type", type).member("sequence_number", sequence_++);
  return json;
}

// Begins an event about the last item.
JsonWriter ResponsesWriter::begin_item_event(std::string_view type) {
  JsonWriter json = begin_event(type);
  json.member("item_id", items_.back().id).member("output_index", items_.size() - 1);
  const bool summary = items_.back().kind == Item::Kind::reasoning && facts_.summary;
  if (items_.back().kind != Item::Kind::call) json.member(summary ? "summary_index" : "content_index", 0);
  return json;
}

void ResponsesWriter::open_item(Item item, std::vector<std::string>& events) {
  close_item(events);
  constexpr std::string_view kPrefixes[] = {"rs_", "msg_", "fc_"};
  item.id = fmt::format("{}{}{:02x}", kPrefixes[static_cast<size_t>(item.kind)], facts_.id.substr(5),
                        items_.size());
  items_.push_back(std::move(item));
  JsonWriter added = begin_event("response.output_item.added");
  added.member("output_index", items_.size() - 1).key("item");
  write_item(added, items_.back(), false);
  events.push_back(added.end_object().take());
  if (items_.back().kind == Item::Kind::call) return;
  JsonWriter part = begin_item_event(part_event(items_.back(), "added"));
  part.key("part");
  write_part(part, items_.back(), {});
  events.push_back(part.end_object().take());
}

void ResponsesWriter::close_item(std::vector<std::string>& events) {
  if (items_.empty() || items_.back().closed) return;
  Item& item = items_.back();
  item.closed = true;
  if (item.kind == Item::Kind::call) {
    JsonWriter done = begin_item_event("response.function_call_arguments.done");
    done.member("name", item.call.name).member("arguments", item.text);
    events.push_back(done.end_object().take());
  } else {
    const bool reasoning = item.kind == Item::Kind::reasoning;
    JsonWriter done = begin_item_event(text_event(item, "done"));
    done.member("text", item.text);
    if (!reasoning) done.key("logprobs").begin_array().end_array();
    events.push_back(done.end_object().take());
    JsonWriter part = begin_item_event(part_event(item, "done"));
    part.key("part");
    write_part(part, item, item.text);
    events.push_back(part.end_object().take());
  }
  JsonWriter whole = begin_event("response.output_item.done");
  whole.member("output_index", items_.size() - 1).key("item");
  write_item(whole, item, true);
  events.push_back(whole.end_object().take());
}

void ResponsesWriter::add_text(Item::Kind kind, const std::string& text, std::vector<std::string>& events) {
  if (text.empty()) return;
  if (items_.empty() || items_.back().closed || items_.back().kind != kind) {
    open_item({.kind = kind, .id = {}, .text = {}, .call = {}}, events);
  }
  items_.back().text += text;
  const bool message = kind == Item::Kind::message;
  JsonWriter json = begin_item_event(text_event(items_.back(), "delta"));
  json.member("delta", text);
  if (message) json.key("logprobs").begin_array().end_array();
  events.push_back(json.end_object().take());
}

void ResponsesWriter::add_calls(const TextAndCalls& parts, std::vector<std::string>& events) {
  add_text(Item::Kind::message, parts.content, events);
  for (const ToolCall& call : parts.calls) {
    const bool cut = parts.last_is_cut && &call == &parts.calls.back();
    open_item({.kind = Item::Kind::call, .id = {}, .text = call.arguments, .call = call, .cut = cut}, events);
    JsonWriter json = begin_item_event("response.function_call_arguments.delta");
    json.member("delta", call.arguments);
    events.push_back(json.end_object().take());
    close_item(events);
  }
}

// ---- the answer

void ResponsesWriter::write_response(JsonWriter& json, std::string_view status, const Totals* totals) const {
  json.begin_object().member("id", facts_.id).member("object", "response");
  json.member("created_at", facts_.created).member("status", status);
  if (facts_.background) json.member("background", true);
  json.key("error");
  if (fault_) {
    json.begin_object().member("code", "server_error").member("message", fault_->text).end_object();
  } else {
    json.null();
  }
  json.key("incomplete_details");
  if (status == "incomplete") {
    json.begin_object().member("reason", end_of(ending_.reason).why).end_object();
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
  if (totals || fault_) {
    for (const Item& item : items_) write_item(json, item, true);
  }
  json.end_array().member("parallel_tool_calls", facts_.calls.several);
  text_or_null("previous_response_id", facts_.previous);
  json.member("store", facts_.store).member("temperature", facts_.temperature);
  json.key("text").begin_object().key("format").begin_object().member("type", facts_.format);
  json.end_object()
      .end_object()
      .key("tool_choice")
      .raw(facts_.tool_choice)
      .key("tools")
      .raw(facts_.tools_sent);
  json.key("reasoning")
      .raw(facts_.reasoning)
      .member("top_p", facts_.top_p)
      .member("truncation", "disabled")
      .key("usage");
  if (totals) {
    json.begin_object().member("input_tokens", totals->prompt_tokens).key("input_tokens_details");
    json.begin_object().member("cached_tokens", totals->cached_tokens).end_object();
    json.member("output_tokens", totals->completion_tokens).key("output_tokens_details");
    json.begin_object().member("reasoning_tokens", totals->reasoning_tokens).end_object();
    json.member("total_tokens", totals->prompt_tokens + totals->completion_tokens);
    write_adapter(json, totals->adapter);
    json.end_object();
  } else {
    json.null();
  }
  json.key("metadata").raw(facts_.metadata);
  if (!facts_.warnings.empty()) {
    json.key("warnings").begin_array();
    for (const std::string& warning : facts_.warnings) json.value(warning);
    json.end_array();
  }
  json.end_object();
}

std::string ResponsesWriter::write_pending(std::string_view status) const {
  JsonWriter json;
  write_response(json, status, nullptr);
  return json.take();
}

void ResponsesWriter::write_opening(int32_t, std::vector<std::string>& events) {
  for (const std::string_view type : {"response.created", "response.in_progress"}) {
    JsonWriter json = begin_event(type);
    json.key("response");
    write_response(json, "in_progress", nullptr);
    events.push_back(json.end_object().take());
  }
}

void ResponsesWriter::write_piece(const Piece& piece, std::vector<std::string>& events) {
  if (piece.ending) ending_ = *piece.ending;
  add_text(Item::Kind::reasoning, piece.reasoning, events);
  if (!splitter_) {
    add_text(Item::Kind::message, piece.content, events);
  } else {
    add_calls(splitter_->feed(piece.content, piece.ending), events);
  }
  if (!piece.ending) return;
  // Clients expect a message even in an empty answer.
  if (items_.empty()) open_item({.kind = Item::Kind::message, .id = {}, .text = {}, .call = {}}, events);
  close_item(events);
}

void ResponsesWriter::write_closing(const Totals& totals, std::vector<std::string>& events) {
  JsonWriter whole = begin_event(status() == "completed" ? "response.completed" : "response.incomplete");
  whole.key("response").raw(finish(totals));
  events.push_back(whole.end_object().take());
}

// Builds the items as a stream does and drops the events.
std::string ResponsesWriter::write_whole(std::vector<Choice> choices, const Totals& totals) {
  std::vector<std::string> unused;
  write_piece(whole_piece(std::move(choices.front())), unused);
  return finish(totals);
}

std::string ResponsesWriter::write_failed_event(const ApiError& error) {
  fault_ = error;
  if (facts_.store && !facts_.background) {
    service_->families.responses->store.put(as_stored(write_pending(status())));
  }
  JsonWriter json = begin_event("error");
  json.member("code", error.code).member("message", error.text).key("param").null();
  return json.end_object().take();
}

std::string ResponsesWriter::write_failure(const ApiError& error) {
  if (!facts_.background) return Writer::write_failure(error);
  fault_ = error;
  return write_pending("failed");
}

void ResponsesWriter::keep_paused(const PausedRow& row) {
  if (!paused_) return;
  paused_->keep(std::make_unique<ResponseProgress>(
      ResponseProgress{without_service(), row.splitter, row.reasoning_tokens}));
}

std::unique_ptr<ResponsesWriter> ResponsesWriter::without_service() const {
  auto copy = std::make_unique<ResponsesWriter>(*this);
  copy->service_.reset();
  copy->paused_.reset();
  return copy;
}

StoredResponse ResponsesWriter::stored_form(const Totals& totals) const {
  JsonWriter json;
  write_response(json, status(), &totals);
  return as_stored(json.take());
}

// Writes the answer, and stores it if asked to, however it has ended.
std::string ResponsesWriter::finish(const Totals& totals) {
  StoredResponse stored = stored_form(totals);
  std::string text = stored.json;
  if (facts_.store && !facts_.background) service_->families.responses->store.put(std::move(stored));
  return text;
}

StoredResponse ResponsesWriter::as_stored(std::string json) const {
  StoredResponse stored{.id = facts_.id,
                        .model = facts_.model_id,
                        .json = std::move(json),
                        .created = facts_.created,
                        .tools = facts_.tools,
                        .input = facts_.input,
                        .owner = facts_.owner,
                        .adapter = facts_.adapter,
                        .room = facts_.room};
  const ResponseEnd end = end_of(fault_ ? FinishReason::failed : ending_.reason);
  if (fault_ || !ending_.wrote_session) stored.cut = end.why.empty() ? end.status : end.why;
  for (const Item& item : items_) {
    if (item.kind == Item::Kind::call) stored.calls.push_back(item.call.id);
  }
  return stored;
}

}  // namespace fulmar
