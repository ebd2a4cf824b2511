// Writes the document. Groups of fields and shapes of answers become components, to which operations refer.
#include "server/status/openapi.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/version.h"
#include "net/http_message.h"
#include "net/json.h"
#include "net/json_writer.h"
#include "server/core/call.h"
#include "server/core/fields.h"
#include "server/core/framing.h"
#include "server/generate/member_shape.h"

namespace fulmar {
namespace {

constexpr std::string_view kEventMember = "x-event-schema";  // of a stream's content: the schema of one event

std::string lower(std::string_view method) {
  std::string text(method);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

void write_reference(JsonWriter& json, std::string_view component) {
  json.begin_object().member("$ref", fmt::format("#/components/schemas/{}", component)).end_object();
}

std::string component_of(const FieldGroup& group) { return fmt::format("fields.{}", group.name); }

// Writes the only item, or "anyOf" with all of them.
template <class Item, class Write>
void write_choice(JsonWriter& json, const Item& items, const Write& write) {
  if (items.size() == 1) return write(*items.begin());
  json.begin_object().key("anyOf").begin_array();
  for (const auto& item : items) write(item);
  json.end_array().end_object();
}

// ---- fields

// Writes into an object what a shape of members says: an item of a list, the members of an object, or the
// choice by `type`. What is refused or only told of is left out.
void write_members(JsonWriter& json, const MemberShape& shape) {
  if (shape.element()) {
    json.key("items").begin_object();
    write_members(json, *shape.element());
    json.end_object();
  } else if (!shape.types().empty()) {
    json.key("anyOf").begin_array();
    for (const auto& [type, one] : shape.types()) {
      json.begin_object();
      write_members(json, *one);
      json.end_object();
    }
    json.end_array();
  } else if (!shape.members().empty()) {
    json.key("properties").begin_object();
    for (const auto& [name, member] : shape.members()) {
      if (member.way != MemberShape::Way::read) continue;
      json.key(name).begin_object();
      write_members(json, *member.shape);
      json.end_object();
    }
    json.end_object();
  }
}

void write_type(JsonWriter& json, const Takes& takes) {
  using Type = Takes::Type;
  const auto list_of = [&](std::string_view type) {
    json.member("type", "array").key("items").begin_object().member("type", type).end_object();
  };
  switch (takes.type) {
    case Type::boolean:
      json.member("type", "boolean");
      break;
    case Type::integer:
    case Type::number:
      json.member("type", takes.type == Type::integer ? "integer" : "number");
      if (takes.least > -Takes::kOpen) json.member("minimum", takes.least);
      if (takes.most < Takes::kOpen) json.member("maximum", takes.most);
      break;
    case Type::seed:
      json.member("type", "integer").member("minimum", 0).key("maximum").raw("18446744073709551615");
      break;
    case Type::text:
      json.member("type", "string");
      break;
    case Type::word:
      json.member("type", "string").key("enum").begin_array();
      for (const std::string_view word : words_of(takes.words, ' ')) json.value(word);
      json.end_array();
      break;
    case Type::texts:
      json.key("anyOf").begin_array().begin_object().member("type", "string").end_object().begin_object();
      list_of("string");
      json.end_object().end_array();
      break;
    case Type::list:
      json.member("type", "array");
      break;
    case Type::numbers:
      list_of("number");
      break;
    case Type::object:
      json.member("type", "object");
      break;
    case Type::any:
      break;
  }
}

void write_group(JsonWriter& json, const FieldGroup& group) {
  json.key(component_of(group)).begin_object().member("type", "object").key("properties").begin_object();
  for (const Field& field : group.fields) {
    json.key(field.name).begin_object();
    write_type(json, field.takes);
    if (!field.takes.members.empty()) write_members(json, *MemberShape::parse(field.takes.members));
    json.member("description", field.text);
    if (!field.otherwise.empty()) json.key("default").raw(field.otherwise);
    json.end_object();
  }
  json.end_object().end_object();
}

void write_request(JsonWriter& json, const Route& route) {
  json.key("requestBody").begin_object().key("content").begin_object();
  const bool fields = !route.takes_bytes || !route.note->fields.empty();
  if (route.takes_bytes) {
    json.key(fields ? "multipart/form-data" : "application/octet-stream").begin_object().key("schema");
    json.begin_object().end_object().end_object();
  }
  if (fields) {
    json.key("application/json").begin_object().key("schema").begin_object().key("allOf").begin_array();
    for (const FieldGroup* group : route.note->fields.all()) write_reference(json, component_of(*group));
    write_reference(json, component_of(kBodyFields));
    json.end_array().end_object().end_object();
  }
  json.end_object().end_object();
}

// ---- answers

void write_shape(JsonWriter& json, const JsonValue& shape);

// Writes the schema of one word of a shape: a type, "=" and a text, or "@" and a name.
void write_word(JsonWriter& json, std::string_view word) {
  if (word.starts_with('@')) return write_reference(json, word.substr(1));
  json.begin_object();
  if (word.starts_with('=')) {
    json.member("const", word.substr(1));
  } else if (word != "any") {
    json.member("type", word);
  }
  json.end_object();
}

void write_object(JsonWriter& json, const JsonObject& shape) {
  if (const JsonValue* choices = shape.find("|")) {
    return write_choice(json, choices->as_array(), [&](const JsonValue& one) { write_shape(json, one); });
  }
  json.begin_object().member("type", "object");
  if (const JsonValue* each = shape.find("*")) {
    json.key("additionalProperties");
    write_shape(json, *each);
    json.end_object();
    return;
  }
  json.key("properties").begin_object();
  for (const auto& [name, member] : shape.members()) {
    json.key(std::string_view(name).substr(0, name.find('?')));
    write_shape(json, member);
  }
  json.end_object().key("required").begin_array();
  for (const auto& [name, member] : shape.members()) {
    if (!name.ends_with('?')) json.value(name);
  }
  json.end_array().end_object();
}

void write_shape(JsonWriter& json, const JsonValue& shape) {
  if (shape.is_object()) return write_object(json, shape.as_object());
  if (shape.is_string()) {
    return write_choice(json, words_of(shape.as_string(), '|'),
                        [&](std::string_view word) { write_word(json, word); });
  }
  json.begin_object();
  if (shape.is_array()) {
    json.member("type", "array").key("items");
    write_shape(json, shape.as_array().front());
  } else {
    json.key("const").value(shape);
  }
  json.end_object();
}

void write_named_shape(JsonWriter& json, const JsonShape& shape) {
  json.key(shape.name);
  const auto parsed = parse_json(shape.text);
  FULMAR_CHECK(parsed.ok());
  write_shape(json, *parsed);
}

using Shapes = std::map<std::string_view, const JsonShape*>;

void gather(const JsonShape& shape, Shapes& all) {
  if (!all.emplace(shape.name, &shape).second) return;
  for (const JsonShape* part : shape.parts.all()) gather(*part, all);
}

// Returns the shapes of a route's errors.
std::vector<const JsonShape*> errors_of(const Route& route) {
  std::vector<const JsonShape*> shapes = {&error_shape(route.family)};
  if (route.family_of_body) shapes.push_back(&error_shape(Family::native));
  for (const JsonShape* refusal : route.note->answers.refusal.all()) shapes.push_back(refusal);
  return shapes;
}

// Returns the error statuses of a route: by the checks before its handler, by what its body may name, and by
// its declaration.
std::set<int> statuses_of(const Route& route) {
  std::set<int> statuses = {400, 421, 500, 503};
  if (route.access != Access::open) statuses.insert({401, 403, 429});
  if (route.method != "GET") statuses.insert({413, 415});
  if (route.path.find('*') != std::string_view::npos) statuses.insert(404);
  if (route.note->fields.find("state_id")) statuses.insert(404);
  if (route.note->fields.find("session_id")) statuses.insert({404, 409});
  if (route.access == Access::admin || route.access == Access::listed) statuses.insert(501);
  for (const std::string_view word : words_of(route.note->answers.statuses, ' '))
    statuses.insert(std::stoi(std::string(word)));
  return statuses;
}

template <class List>
void write_shapes(JsonWriter& json, const List& shapes) {
  write_choice(json, shapes, [&](const JsonShape* shape) { write_reference(json, shape->name); });
}

void write_success(JsonWriter& json, const Route& route) {
  const Answers& answers = route.note->answers;
  json.begin_object().member("description", "the answer").key("content").begin_object();
  if (answers.type != "application/json" || !answers.whole.empty()) {
    json.key(answers.type).begin_object().key("schema");
    if (answers.whole.empty()) {
      json.begin_object().end_object();
    } else {
      write_shapes(json, answers.whole.all());
    }
    json.end_object();
  }
  if (!answers.events.empty()) {
    std::vector<const JsonShape*> events(answers.events.all().begin(), answers.events.all().end());
    for (const JsonShape* error : errors_of(route)) events.push_back(error);
    const std::string_view type = content_type_of(answers.lines ? Framing::lines : Framing::plain);
    json.key(type.substr(0, type.find(';'))).begin_object().key("schema");
    json.begin_object().member("type", "string").end_object().key(kEventMember);
    write_shapes(json, events);
    json.end_object();
  }
  json.end_object().end_object();
}

void write_responses(JsonWriter& json, const Route& route) {
  json.key("responses").begin_object().key("200");
  write_success(json, route);
  for (const int status : statuses_of(route)) {
    json.key(std::to_string(status)).begin_object().member("description", reason_phrase(status));
    json.key("content").begin_object().key("application/json").begin_object().key("schema");
    write_shapes(json, errors_of(route));
    json.end_object().end_object().end_object();
  }
  json.end_object();
}

// ---- the document

void write_operation(JsonWriter& json, const Route& route) {
  json.key(lower(route.method)).begin_object().member("summary", route.note->summary);
  json.key("security").begin_array();
  if (needs_key({.password = "p"}, route.access)) {
    json.begin_object().key("password").begin_array().end_array().end_object();
  }
  json.end_array();
  if (route.path.find('*') != std::string_view::npos) {
    json.key("parameters").begin_array().begin_object().member("name", "id").member("in", "path");
    json.member("required", true).key("schema").begin_object().member("type", "string").end_object();
    json.end_object().end_array();
  }
  if (route.method == "POST" || route.method == "PUT") write_request(json, route);
  write_responses(json, route);
  json.end_object();
}

void write_components(JsonWriter& json, std::span<const Route> routes) {
  std::set<const FieldGroup*> written;
  Shapes shapes;
  json.key("components").begin_object().key("schemas").begin_object();
  write_group(json, kBodyFields);
  for (const Route& route : routes) {
    for (const FieldGroup* group : route.note->fields.all()) {
      if (written.insert(group).second) write_group(json, *group);
    }
    const Answers& answers = route.note->answers;
    for (const JsonShape* shape : answers.whole.all()) gather(*shape, shapes);
    for (const JsonShape* shape : answers.events.all()) gather(*shape, shapes);
    for (const JsonShape* shape : errors_of(route)) gather(*shape, shapes);
  }
  for (const auto& [name, shape] : shapes) write_named_shape(json, *shape);
  json.end_object().key("securitySchemes").begin_object().key("password");
  json.begin_object().member("type", "http").member("scheme", "bearer").end_object();
  json.end_object().end_object();
}

}  // namespace

std::string openapi_json(std::span<const Route> routes) {
  std::vector<std::string_view> paths;  // in the order of the table, each once
  for (const Route& route : routes) {
    if (std::find(paths.begin(), paths.end(), route.path) == paths.end()) paths.push_back(route.path);
  }
  JsonWriter json;
  json.begin_object().member("openapi", "3.1.0").key("info").begin_object().member("title", "Fulmar");
  json.member("version", program_version()).end_object().key("paths").begin_object();
  for (const std::string_view path : paths) {
    json.key(path_with(path, "{id}")).begin_object();
    for (const Route& route : routes) {
      if (route.path == path) write_operation(json, route);
    }
    json.end_object();
  }
  json.end_object();
  write_components(json, routes);
  return json.end_object().take();
}

void openapi(std::shared_ptr<Call> call) {
  static const std::string document = openapi_json(call->service().routes);  // milliseconds to write
  call->respond_json(document);
}

}  // namespace fulmar
