// Reading a conversation's name.
#include "net/conversation.h"

#include "net/path_pattern.h"

namespace fulmar {
namespace {

using Kind = Conversation::Kind;

struct NamingPath {
  std::string_view pattern;
  Kind kind;
};

// The first line that a path fits counts.
constexpr NamingPath kNamingPaths[] = {
    {"/v1/responses/input_tokens", Kind::none},
    {"/v1/responses/*/cancel", Kind::response},
    {"/v1/responses/*/input_items", Kind::response},
    {"/v1/responses/*", Kind::response},
    {"/v1/sessions/*/state", Kind::session},
    {"/v1/sessions/*/fork", Kind::session},
    {"/v1/sessions/*", Kind::session},
};

Conversation conversation_of_path(std::string_view path) {
  for (const NamingPath& each : kNamingPaths) {
    std::string_view id;
    if (path_fits(each.pattern, path, id)) return {each.kind, std::string(id)};
  }
  return {};
}

// Returns a field of the body, at its top or in the object `params`; empty where it is not a text.
std::string field_text(const JsonValue& body, std::string_view name) {
  const JsonValue* params = body.find("params");
  for (const JsonValue* holder : {&body, params}) {
    const JsonValue* field = holder ? holder->find(name) : nullptr;
    if (field && field->is_string() && !field->as_string().empty()) return field->as_string();
  }
  return {};
}

}  // namespace

Conversation named_conversation(std::string_view path, const Headers& headers, const JsonValue& body) {
  if (Conversation named = conversation_of_path(path); named.kind != Kind::none) return named;
  if (std::string id = field_text(body, "previous_response_id"); !id.empty()) {
    return {Kind::response, std::move(id)};
  }
  std::string id = field_text(body, "session_id");
  if (id.empty()) id = headers.get(kSessionHeader);
  return id.empty() ? Conversation{} : Conversation{Kind::session, std::move(id)};
}

}  // namespace fulmar
