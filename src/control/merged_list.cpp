// Merging by id.
#include "control/merged_list.h"

#include <algorithm>

#include "net/json.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr ListForm kForms[] = {
    {.path = "/v1/sessions", .member = "data", .key = "id", .paged = true},
    {.path = "/api/tags", .member = "models", .key = "name"},
    {.path = "/api/ps", .member = "models", .key = "name"},
};

struct ListedWorker {
  std::string id;
  std::string owner;
  std::string text;
};

std::string text_of(const JsonValue& object, std::string_view name) {
  const JsonValue* member = object.find(name);
  return member && member->is_string() ? member->as_string() : std::string();
}

bool same_name(const ListedWorker& one, const ListedWorker& other) {
  return one.id == other.id && one.owner == other.owner;
}

// Sorts the entries and keeps one of each name, whichever workers list it: the first.
void order(std::vector<ListedWorker>& entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const ListedWorker& one, const ListedWorker& other) {
    return one.id != other.id ? one.id < other.id : one.owner < other.owner;
  });
  entries.erase(std::unique(entries.begin(), entries.end(), same_name), entries.end());
}

}  // namespace

const ListForm& list_form(std::string_view path) {
  const auto found = std::find_if(std::begin(kForms), std::end(kForms),
                                  [&](const ListForm& form) { return form.path == path; });
  return found == std::end(kForms) ? kForms[0] : *found;
}

std::optional<std::string> merge_lists(const ListForm& form, const std::vector<std::string_view>& pages,
                                       int64_t limit) {
  std::vector<ListedWorker> entries;
  bool more = false;
  for (const std::string_view page : pages) {
    const auto list = parse_json(page);
    const JsonValue* members = list.ok() ? list->find(form.member) : nullptr;
    if (!members || !members->is_array()) return std::nullopt;
    for (const JsonValue& member : members->as_array()) {
      JsonWriter json;
      json.value(member);
      entries.push_back({text_of(member, form.key), text_of(member, "owner"), json.take()});
    }
    const JsonValue* has_more = list->find("has_more");
    more = more || (has_more && has_more->is_bool() && has_more->as_bool());
  }
  order(entries);
  size_t end = form.paged ? std::min(entries.size(), static_cast<size_t>(limit)) : entries.size();
  // The next page begins after the last id.
  while (end > 0 && end < entries.size() && entries[end].id == entries[end - 1].id) ++end;
  JsonWriter json;
  json.begin_object();
  if (form.paged) json.member("object", "list");
  json.key(form.member).begin_array();
  for (size_t i = 0; i < end; ++i) json.raw(entries[i].text);
  json.end_array();
  if (form.paged) json.member("has_more", more || end < entries.size());
  return json.end_object().take();
}

}  // namespace fulmar
