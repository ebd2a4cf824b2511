#include "server/responses/response_items.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_values.h"
#include "net/json.h"
#include "net/json_writer.h"
#include "server/generate/writer_parts.h"

namespace fulmar {
namespace {

const std::string* text_member(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.find(name);
  return value && value->is_string() ? &value->as_string() : nullptr;
}

// Writes an input item as clients read it: with an id, and a message's text as a part.
void write_item(JsonWriter& json, const std::string& id, const JsonValue& item) {
  const std::string *type = text_member(item, "type"), *content = text_member(item, "content");
  json.begin_object();
  if (!text_member(item, "id")) json.member("id", id);
  if (!type) json.member("type", "message");
  for (const auto& [name, value] : item.as_object().members()) {
    if (name == "content" && content) continue;
    json.member(name, value);
  }
  if (content) {
    const std::string* role = text_member(item, "role");
    const bool said = role && *role == "assistant";
    json.key("content").begin_array().begin_object();
    json.member("type", said ? "output_text" : "input_text").member("text", *content);
    json.end_object().end_array();
  }
  json.end_object();
}

std::string id_of(const JsonValue& item) {
  const std::string* id = text_member(item, "id");
  return id ? *id : std::string();
}

}  // namespace

std::string input_items_json(const std::string& response_id, const JsonValue& input) {
  constexpr size_t kPrefix = 5;  // "resp_"
  const std::string stem = response_id.substr(std::min(kPrefix, response_id.size()));
  JsonWriter json;
  json.begin_array();
  if (input.is_string()) {
    JsonObject message({{"role", JsonValue(std::string("user"))}, {"content", input}});
    write_item(json, fmt::format("msg_{}in0", stem), JsonValue(std::move(message)));
  } else if (input.is_array()) {
    for (size_t i = 0; i < input.as_array().size(); ++i) {
      const JsonValue& item = input.as_array()[i];
      if (item.is_object()) write_item(json, fmt::format("msg_{}in{}", stem, i), item);
    }
  }
  return json.end_array().take();
}

std::optional<std::string> items_page_json(const std::string& items, const ItemPage& page) {
  JsonValue::Array list;
  if (const auto parsed = parse_json(items, {.max_bytes = items.size() + 1}); parsed && parsed->is_array()) {
    list = parsed->as_array();
  }
  if (!page.ascending) std::reverse(list.begin(), list.end());
  auto begin = list.begin();
  if (!page.after.empty()) {
    begin = std::find_if(list.begin(), list.end(),
                         [&](const JsonValue& item) { return id_of(item) == page.after; });
    if (begin == list.end()) return std::nullopt;
    ++begin;
  }
  const auto end = begin + std::min<std::ptrdiff_t>(page.limit, list.end() - begin);
  JsonWriter json = begin_list();
  for (auto item = begin; item != end; ++item) json.value(*item);
  json.end_array().key("first_id");
  begin == end ? json.null() : json.value(id_of(*begin));
  json.key("last_id");
  begin == end ? json.null() : json.value(id_of(*(end - 1)));
  return json.member("has_more", end != list.end()).end_object().take();
}

}  // namespace fulmar
