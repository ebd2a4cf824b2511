// Writing the document.
#include "server/status/openapi.h"

#include <algorithm>
#include <cctype>

#include "base/version.h"
#include "net/json_writer.h"
#include "server/core/call.h"
#include "server/core/route_notes.h"

namespace fulmar {
namespace {

std::string lower(std::string_view method) {
  std::string text(method);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

void write_schema(JsonWriter& json, const RouteNote& note) {
  json.begin_object().member("type", "object").key("properties").begin_object();
  std::vector<std::string_view> written;  // of two groups' fields of one name the first counts
  for (const auto& group : note.fields) {
    for (const FieldNote& field : group) {
      if (std::find(written.begin(), written.end(), field.name) != written.end()) continue;
      written.push_back(field.name);
      json.key(field.name).begin_object();
      if (!field.type.empty()) json.member("type", field.type);
      json.member("description", field.text).end_object();
    }
  }
  json.end_object().end_object();
}

void write_operation(JsonWriter& json, const Route& route, const RouteNote& note) {
  json.key(lower(route.method)).begin_object().member("summary", note.summary);
  json.key("security").begin_array();
  if (route.access == Access::key || route.access == Access::kept || route.access == Access::key_or_query ||
      route.access == Access::listed || route.access == Access::admin) {
    json.begin_object().key("password").begin_array().end_array().end_object();
  }
  json.end_array();
  if (route.path.find('*') != std::string_view::npos) {
    json.key("parameters").begin_array().begin_object().member("name", "id").member("in", "path");
    json.member("required", true).key("schema").begin_object().member("type", "string").end_object();
    json.end_object().end_array();
  }
  if (route.method == "POST" || route.method == "PUT") {
    json.key("requestBody").begin_object().key("content").begin_object();
    json.key(route.takes_bytes ? "application/octet-stream" : "application/json")
        .begin_object()
        .key("schema");
    if (route.takes_bytes) {
      json.begin_object().end_object();
    } else {
      write_schema(json, note);
    }
    json.end_object().end_object().end_object();
  }
  json.key("responses")
      .begin_object()
      .key("200")
      .begin_object()
      .member("description", "the answer")
      .end_object();
  json.key("default").begin_object().member("description", "an error").end_object().end_object().end_object();
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
    static const RouteNote kNone{};
    const RouteNote* note = find_route_note(path);
    json.key(path_with(path, "{id}")).begin_object();
    for (const Route& route : routes) {
      if (route.path == path) write_operation(json, route, note ? *note : kNone);
    }
    json.end_object();
  }
  json.end_object().key("components").begin_object().key("securitySchemes").begin_object().key("password");
  json.begin_object().member("type", "http").member("scheme", "bearer").end_object();
  return json.end_object().end_object().end_object().take();
}

void openapi(std::shared_ptr<Call> call) { call->respond_json(openapi_json(call->service().routes)); }

}  // namespace fulmar
