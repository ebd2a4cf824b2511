// Look-up in the tree and its description for error texts.
#include "net/json_value.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/check.h"
#include "base/meter.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

// Below this a linear search is as quick as any index.
constexpr size_t kIndexedFrom = 16;

constexpr size_t kShownBytes = 40;

std::vector<uint32_t> sorted_by_key(const std::vector<JsonObject::Member>& members) {
  std::vector<uint32_t> order(members.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const int c = members[a].first.compare(members[b].first);
    return c != 0 ? c < 0 : a < b;
  });
  return order;
}

// Gives the first of equal keys the value of the last and drops the others. Returns whether there were any.
bool merge_equal_keys(std::vector<JsonObject::Member>& members, const std::vector<uint32_t>& order) {
  std::vector<bool> dropped(members.size());
  bool any = false;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && members[order[end]].first == members[order[begin]].first)
      dropped[order[end++]] = true;
    if (end - begin > 1) {
      members[order[begin]].second = std::move(members[order[end - 1]].second);
      any = true;
    }
    begin = end;
  }
  if (!any) return false;
  size_t kept = 0;
  for (size_t i = 0; i < members.size(); i++) {
    if (dropped[i]) continue;
    if (kept != i) members[kept] = std::move(members[i]);
    kept++;
  }
  members.resize(kept);
  return true;
}

}  // namespace

JsonObject::JsonObject(std::vector<Member> members) : members_(std::move(members)) {
  FULMAR_CHECK(members_.size() < UINT32_MAX);
  count_work(members_.size() * static_cast<size_t>(std::bit_width(members_.size())));  // of sorting
  std::vector<uint32_t> order = sorted_by_key(members_);
  if (merge_equal_keys(members_, order)) order = sorted_by_key(members_);
  if (members_.size() >= kIndexedFrom) by_key_ = std::move(order);
}

const JsonValue* JsonObject::find(std::string_view key) const {
  if (by_key_.empty()) {
    for (const auto& [name, value] : members_) {
      if (name == key) return &value;
    }
    return nullptr;
  }
  const auto at =
      std::lower_bound(by_key_.begin(), by_key_.end(), key,
                       [&](uint32_t i, std::string_view wanted) { return members_[i].first < wanted; });
  return at != by_key_.end() && members_[*at].first == key ? &members_[*at].second : nullptr;
}

double JsonValue::as_double() const {
  if (kind() == Kind::int64) return static_cast<double>(as_int64());
  if (kind() == Kind::uint64) return static_cast<double>(as_uint64());
  return std::get<double>(content_);
}

const JsonValue* JsonValue::find(std::string_view key) const {
  return is_object() ? as_object().find(key) : nullptr;
}

std::string describe(const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::null:
      return "null";
    case JsonValue::Kind::boolean:
      return value.as_bool() ? "boolean true" : "boolean false";
    case JsonValue::Kind::array:
      return "array of " + std::to_string(value.as_array().size());
    case JsonValue::Kind::object:
      return "object of " + std::to_string(value.as_object().members().size());
    case JsonValue::Kind::string: {
      const std::string& text = value.as_string();
      if (text.size() > kShownBytes) return "string of " + std::to_string(text.size()) + " bytes";
      return "string " + json_quoted(text);
    }
    default:
      return "number " + JsonWriter().value(value).take();
  }
}

}  // namespace fulmar
