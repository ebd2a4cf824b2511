// The tokenizer's routes: no engine involved.
#include "server/native/tokens.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "net/json.h"
#include "net/json_writer.h"
#include "server/generate/chat_intake.h"
#include "server/generate/intake.h"
#include "server/native/native_batch.h"

namespace fulmar {
namespace {

void write_piece(JsonWriter& json, int32_t id, std::string_view bytes) {
  json.begin_object().member("id", id).key("piece");
  if (is_utf8(bytes)) {
    json.value(bytes);
  } else {
    json.begin_array();
    for (const char byte : bytes) json.value(static_cast<int32_t>(static_cast<unsigned char>(byte)));
    json.end_array();
  }
  json.end_object();
}

std::optional<std::vector<int32_t>> read_ids(Fields& fields, const JsonValue& list, int64_t vocabulary) {
  std::vector<int32_t> ids;
  ids.reserve(list.as_array().size());
  for (const JsonValue& element : list.as_array()) {
    const std::optional<int64_t> id = element.is_number() ? lenient_int(element) : std::nullopt;
    if (!id || *id < 0 || *id >= vocabulary) {
      fields.fail(bad_value(
          fmt::format("'tokens' holds {}; wanted ids of 0 to {}", describe(element), vocabulary - 1),
          "tokens"));
      return std::nullopt;
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

// Returns the text to count; nothing when the body holds none, or at a fault.
std::optional<std::string> text_to_count(Fields& fields, const ServedModel& model) {
  const std::vector<std::string> contents = fields.texts(kContentsFields["contents"]);
  if (fields.find(kCountFields["text"])) return fields.text(kCountFields["text"]);
  if (fields.present(kMessageFields["messages"])) {
    const std::optional<ChatPrompt> chat = read_chat(fields, model, kV1Chat);
    if (!chat) return std::nullopt;
    return chat->text;
  }
  if (!fields.find(kContentsFields["contents"])) return std::nullopt;
  std::string joined;
  for (const std::string& text : contents) joined += text;
  return joined;
}

}  // namespace

void tokenize(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const ServedModelPtr model = pick_model(*call, fields);
  const auto content = fields.text(kTokenizeFields["content"]);
  const bool with_pieces = fields.flag(kTokenizeFields["with_pieces"]);
  const bool add_special = fields.flag(kTokenizeFields["add_special"]);
  if (!fields.failed() && !content) fields.fail(bad_value("Missing content"));
  if (fields.failed()) return call->fail(fields.fault());
  std::vector<int32_t> ids = model->tokenizer->encode(*content);
  if (add_special) ids.insert(ids.begin(), 0);
  JsonWriter json;
  json.begin_object().key("tokens").begin_array();
  for (const int32_t id : ids) {
    if (with_pieces) {
      write_piece(json, id, model->tokenizer->bytes(id));
    } else {
      json.value(id);
    }
  }
  call->respond_json(json.end_array().end_object().take());
}

void detokenize(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const ServedModelPtr model = pick_model(*call, fields);
  const JsonValue* tokens = fields.find(kDetokenizeFields["tokens"]);
  if (!tokens) {
    fields.fail(bad_value("Missing tokens"));
  } else if (!tokens->is_array()) {
    fields.fail_type("tokens", *tokens, "an array of token ids");
  }
  if (fields.failed()) return call->fail(fields.fault());
  const auto ids = read_ids(fields, *tokens, model->vocabulary);
  if (!ids) return call->fail(fields.fault());
  JsonWriter json;
  json.begin_object().member("content", to_utf8(model->tokenizer->decode(*ids))).end_object();
  call->respond_json(json.take());
}

void count_tokens(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const ServedModelPtr model = pick_model(*call, fields);
  if (fields.failed()) return call->fail(fields.fault());
  const auto text = text_to_count(fields, *model);
  if (fields.failed()) return call->fail(fields.fault());
  if (!text) return call->fail(bad_value("Missing text or messages"));
  JsonWriter json;
  json.begin_object().member("tokens", model->tokenizer->encode(*text).size()).end_object();
  call->respond_json(json.take());
}

}  // namespace fulmar
