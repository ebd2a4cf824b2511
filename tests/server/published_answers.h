// Holds an answer against what /openapi.json says of its route: the status has to be there, and the body of a
// shape that is published for it, with no member that the shape does not name.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "grammar/schema_values.h"
#include "net/json.h"
#include "server/routes.h"
#include "server/status/openapi.h"

namespace fulmar::testing {

// The document of all routes.
inline const JsonValue& published_document() {
  static const JsonValue document = [] {
    const std::string text = openapi_json(routes());
    return *parse_json(text, {.max_bytes = text.size() + 1});
  }();
  return document;
}

// What the document says of a route.
inline const JsonValue& published_operation(const Route& route) {
  std::string method(route.method);
  std::transform(method.begin(), method.end(), method.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return *published_document().find("paths")->find(path_with(route.path, "{id}"))->find(method);
}

class PublishedAnswers {
 public:
  // Returns what is wrong with an answer to `target` of the table of routes; empty: nothing, or no route.
  static std::string fault(const std::string& method, const std::string& target, int status,
                           std::string_view type, std::string_view body) {
    const RouteMatch match = find_route(method, target.substr(0, target.find('?')));
    if (!match.route || method == "HEAD" || method == "OPTIONS" || status == 304) return {};
    const std::string place = fmt::format("{} {} {}: ", method, match.route->path, status);
    const JsonValue* responses = published_operation(*match.route).find("responses");
    const JsonValue* response = responses->find(std::to_string(status));
    if (!response) return place + "the status is not published";
    const JsonValue* content = response->find("content");
    const JsonValue* media = content->find(type.substr(0, type.find(';')));
    if (!media) media = content->find("*/*");
    if (!media) return place + "the type " + std::string(type) + " is not published";
    const std::string found = body_fault(*media, type, body);
    return found.empty() ? found : place + found + " in " + std::string(body.substr(0, 2000));
  }

  // Returns why a value does not fit a schema of the document; empty: it does.
  static std::string misfit(const JsonValue& schema, const JsonValue& value, const std::string& at) {
    if (const JsonValue* reference = schema.find("$ref")) {
      const std::string& name = reference->as_string();
      return misfit(
          *published_document().find("components")->find("schemas")->find(name.substr(name.rfind('/') + 1)),
          value, at);
    }
    if (const JsonValue* choices = schema.find("anyOf")) {
      std::string all;
      for (const JsonValue& choice : choices->as_array()) {
        const std::string one = misfit(choice, value, at);
        if (one.empty()) return {};
        all += (all.empty() ? "" : " | ") + one;
      }
      return all;
    }
    const JsonValue* type = schema.find("type");
    if (type && !is_of(type->as_string(), value)) return at + " is no " + type->as_string();
    const JsonValue* constant = schema.find("const");
    if (constant && json_text(*constant) != json_text(value)) return at + " is not " + json_text(*constant);
    if (value.is_array()) return item_misfit(schema, value, at);
    return value.is_object() ? member_misfit(schema, value, at) : std::string();
  }

 private:
  static std::string body_fault(const JsonValue& media, std::string_view type, std::string_view body) {
    const JsonValue& schema = *media.find("schema");
    if (type.starts_with("application/json")) return text_fault(schema, body);
    const bool lines = type.starts_with("application/x-ndjson");
    if (!lines && !type.starts_with("text/event-stream")) return {};
    while (!body.empty()) {
      std::string_view line = body.substr(0, body.find('\n'));
      body.remove_prefix(std::min(body.size(), line.size() + 1));
      if (!lines && !line.starts_with("data: ")) continue;
      if (!lines) line.remove_prefix(6);
      if (line.empty() || line == "[DONE]") continue;
      const std::string found = text_fault(*media.find("x-event-schema"), line);
      if (!found.empty()) return found;
    }
    return {};
  }

  static std::string text_fault(const JsonValue& schema, std::string_view text) {
    const auto value = parse_json(text, {.max_bytes = text.size() + 1});
    return value.ok() ? misfit(schema, *value, "$") : value.error().text;
  }

  static bool is_of(const std::string& type, const JsonValue& value) {
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_bool();
    if (type == "null") return value.is_null();
    if (type == "array") return value.is_array();
    if (type == "object") return value.is_object();
    const bool number = value.is_number();
    return type == "number" ? number : number && std::floor(value.as_double()) == value.as_double();
  }

  static std::string item_misfit(const JsonValue& schema, const JsonValue& value, const std::string& at) {
    const JsonValue* items = schema.find("items");
    for (size_t i = 0; items && i < value.as_array().size(); ++i) {
      const std::string one = misfit(*items, value.as_array()[i], fmt::format("{}[{}]", at, i));
      if (!one.empty()) return one;
    }
    return {};
  }

  static std::string member_misfit(const JsonValue& schema, const JsonValue& value, const std::string& at) {
    const JsonValue* required = schema.find("required");
    for (const JsonValue& name : required ? required->as_array() : JsonValue::Array()) {
      if (!value.find(name.as_string())) return fmt::format("{} has no {}", at, name.as_string());
    }
    const JsonValue* properties = schema.find("properties");
    const JsonValue* others = schema.find("additionalProperties");
    for (const auto& [name, member] : value.as_object().members()) {
      const JsonValue* known = properties ? properties->find(name) : nullptr;
      if (!known && !others && properties) return fmt::format("{} has {}, which is not published", at, name);
      if (!known) known = others;
      const std::string one = known ? misfit(*known, member, at + "." + name) : std::string();
      if (!one.empty()) return one;
    }
    return {};
  }
};

}  // namespace fulmar::testing
