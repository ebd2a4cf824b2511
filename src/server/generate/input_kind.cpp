// Looks at which members a body has.
#include "server/generate/input_kind.h"

#include <string_view>

#include "server/core/fields.h"

namespace fulmar {
namespace {

bool present(const JsonValue& body, std::string_view name) { return holds_something(body.find(name)); }

}  // namespace

InputKind input_kind(const JsonValue& body) {
  const bool messages = present(body, "messages");
  const bool contents = present(body, "contents");
  const bool prompt = present(body, "prompt");
  if (messages + contents + prompt > 1) return InputKind::several;
  if (messages) return InputKind::messages;
  if (contents) return InputKind::contents;
  return prompt ? InputKind::prompt : InputKind::none;
}

Family family_of_input(const JsonValue& body) {
  const InputKind kind = input_kind(body);
  const JsonValue* contents = body.find("contents");
  const bool empty_contents = kind == InputKind::none && contents && !contents->is_null();
  return kind == InputKind::contents || empty_contents ? Family::native : Family::openai;
}

}  // namespace fulmar
