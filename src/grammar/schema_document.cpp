// References as RFC 3986 and the drafts have them, within one document.
#include "grammar/schema_document.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "net/url.h"

namespace fulmar {
namespace {

constexpr size_t kLongestPlace = 256;
constexpr std::string_view kReferences[] = {"$ref", "$dynamicRef", "$recursiveRef"};
// Their values are data, not schemas.
constexpr std::string_view kData[] = {"enum", "const", "default", "examples", "example"};

bool among(const auto& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

const std::string* text_at(const JsonValue& schema, std::string_view keyword) {
  const JsonValue* value = schema.find(keyword);
  return value && value->is_string() ? &value->as_string() : nullptr;
}

bool has_scheme(std::string_view uri) {
  const size_t colon = uri.find(':');
  return colon != std::string_view::npos && colon > 0 && uri.find_first_of("/?#") > colon;
}

// Resolves the reference against its base (RFC 3986, 5.2), without fragments; removes "." and "..".
std::string joined(std::string_view base, std::string_view reference) {
  if (has_scheme(reference)) return std::string(reference);
  const size_t scheme_end = has_scheme(base) ? base.find(':') + 1 : 0;
  size_t path = scheme_end;
  if (base.substr(path).starts_with("//")) path = std::min(base.find('/', path + 2), base.size());
  if (reference.starts_with("//")) return std::string(base.substr(0, scheme_end)) + std::string(reference);
  if (reference.starts_with('/')) return std::string(base.substr(0, path)) + std::string(reference);
  const size_t slash = base.rfind('/');
  const std::string_view folder = slash == std::string_view::npos || slash < path
                                      ? std::string_view()
                                      : base.substr(path, slash + 1 - path);
  std::vector<std::string_view> parts;
  const std::string whole = std::string(folder) + std::string(reference);
  for (size_t from = 0; from <= whole.size();) {
    const size_t end = std::min(whole.find('/', from), whole.size());
    const std::string_view part = std::string_view(whole).substr(from, end - from);
    from = end + 1;
    if (part == ".." && !parts.empty()) parts.pop_back();
    if (part != "." && part != "..") parts.push_back(part);
  }
  std::string text(base.substr(0, path));
  for (size_t i = 0; i < parts.size(); ++i) text.append(i > 0 ? "/" : "").append(parts[i]);
  return text;
}

// Decodes a part of a JSON pointer: "~1" is '/', "~0" is '~'.
std::string unescaped(std::string_view part) {
  std::string name;
  for (size_t i = 0; i < part.size(); ++i) {
    const bool escape = part[i] == '~' && i + 1 < part.size();
    name += !escape ? part[i] : part[++i] == '1' ? '/' : '~';
  }
  return name;
}

const JsonValue* child(const JsonValue& value, const std::string& name) {
  if (!value.is_array()) return value.find(name);
  size_t index = 0;
  const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool whole = fault == std::errc() && end == name.data() + name.size();
  return whole && index < value.as_array().size() ? &value.as_array()[index] : nullptr;
}

// Returns the value at `pointer`, "" or "/..."; null: there is no such place.
const JsonValue* pointed_at(const JsonValue& from, std::string_view pointer) {
  const JsonValue* at = &from;
  while (at && !pointer.empty()) {
    pointer.remove_prefix(1);
    const size_t end = std::min(pointer.find('/'), pointer.size());
    at = child(*at, unescaped(pointer.substr(0, end)));
    pointer.remove_prefix(end);
  }
  return at;
}

// Appends the path from `at` to `part`. Returns whether it was found.
bool find_way(const JsonValue& at, const JsonValue& part, std::vector<std::string>& way) {
  if (&at == &part) return true;
  const auto try_child = [&](const JsonValue& below, std::string name) {
    way.push_back(std::move(name));
    if (find_way(below, part, way)) return true;
    way.pop_back();
    return false;
  };
  if (at.is_object()) {
    for (const auto& [name, value] : at.as_object().members()) {
      if (try_child(value, name)) return true;
    }
  }
  if (at.is_array()) {
    for (size_t i = 0; i < at.as_array().size(); ++i) {
      if (try_child(at.as_array()[i], std::to_string(i))) return true;
    }
  }
  return false;
}

}  // namespace

SchemaDocument::SchemaDocument(const JsonValue& document) : root_(document) {
  if (const std::string* draft = text_at(document, "$schema")) {
    for (const std::string_view older : {"draft-03", "draft-04", "draft-06", "draft-07"}) {
      if (draft->find(older) != std::string::npos) counts_beside_reference_ = false;
    }
  }
  resources_.emplace("", &document);
  look_into(document, "");
}

void SchemaDocument::look_into(const JsonValue& value, const std::string& base) {
  if (value.is_array()) {
    for (const JsonValue& one : value.as_array()) look_into(one, base);
  }
  if (!value.is_object()) return;
  std::string own = base;
  const std::string* id = text_at(value, "$id");
  if (!id) id = text_at(value, "id");
  if (id) {
    const size_t hash = std::min(id->find('#'), id->size());
    if (hash > 0) {
      own = joined(base, std::string_view(*id).substr(0, hash));
      const auto [found, fresh] = resources_.emplace(own, &value);
      if (!fresh && found->second != &value) found->second = nullptr;
    }
    if (hash + 1 < id->size()) anchors_.emplace(own + id->substr(hash), &value);
  }
  for (const std::string_view keyword : {"$anchor", "$dynamicAnchor"}) {
    const std::string* name = text_at(value, keyword);
    if (!name) continue;
    anchors_.emplace(own + "#" + *name, &value);
    if (keyword == "$dynamicAnchor") ++dynamic_anchors_[*name];
  }
  has_recursive_anchor_ = has_recursive_anchor_ || value.find("$recursiveAnchor");
  for (const std::string_view keyword : kReferences) {
    if (value.find(keyword)) bases_.emplace(&value, own);
  }
  for (const auto& [name, part] : value.as_object().members()) {
    if (!among(kData, name)) look_into(part, own);
  }
}

Result<const JsonValue*> SchemaDocument::referred(const JsonValue& schema, std::string_view keyword) const {
  const auto refuse = [](std::string_view why) { return Error{ErrorKind::unsupported, std::string(why)}; };
  const std::string* reference = text_at(schema, keyword);
  if (!reference) return refuse("wanted a place within the schema such as \"#/$defs/name\"");
  if (keyword == "$recursiveRef" && has_recursive_anchor_) return refuse("the anchor that it means may move");
  const size_t hash = reference->find('#');
  if (keyword == "$dynamicRef" && hash != std::string::npos) {
    const auto named = dynamic_anchors_.find(std::string_view(*reference).substr(hash + 1));
    if (named != dynamic_anchors_.end() && named->second > 1) {
      return refuse("the anchor that it means may move: its name is given more than once");
    }
  }
  const auto base = bases_.find(&schema);
  auto meant = found(base == bases_.end() ? std::string() : base->second, *reference);
  // Documents in the wild give ids to parts of them, and count places from the root all the same.
  if (!meant && reference->starts_with('#')) {
    if (auto from_root = found("", *reference)) return from_root;
  }
  return meant;
}

Result<const JsonValue*> SchemaDocument::found(const std::string& base, std::string_view reference) const {
  const auto refuse = [](std::string_view why) { return Error{ErrorKind::unsupported, std::string(why)}; };
  const size_t hash = std::min(reference.find('#'), reference.size());
  const std::string_view where = reference.substr(0, hash);
  const std::string resource = where.empty() ? base : joined(base, where);
  const auto document = resources_.find(resource);
  if (document == resources_.end()) {
    return refuse("there is no such document here; other documents are not fetched");
  }
  if (!document->second) return refuse("that document is here more than once");
  const auto fragment = percent_decode(reference.substr(std::min(hash + 1, reference.size())));
  if (!fragment) return refuse("its fragment is no percent-encoded text");
  if (fragment->empty() || fragment->starts_with('/')) {
    if (const JsonValue* meant = pointed_at(*document->second, *fragment)) return meant;
    return refuse("there is no such place");
  }
  const auto anchor = anchors_.find(resource + "#" + *fragment);
  if (anchor == anchors_.end()) return refuse("there is no such anchor");
  return anchor->second;
}

std::string SchemaDocument::place_of(const JsonValue& part) const {
  std::vector<std::string> way;
  std::string text = "#";
  if (!find_way(root_, part, way)) return text;
  for (const std::string& name : way) {
    text += '/' + name.substr(0, kLongestPlace);
    if (text.size() > kLongestPlace) return text.substr(0, kLongestPlace) + "...";
  }
  return text;
}

}  // namespace fulmar
