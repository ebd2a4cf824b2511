// Header and query look-up, reason phrases.
#include "net/http_message.h"

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <ostream>

namespace fulmar {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool list_holds(std::string_view list, std::string_view token) {
  while (true) {
    const size_t comma = list.find(',');
    if (equals_ignoring_case(trim(list.substr(0, comma)), token)) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

const std::string* Headers::find(std::string_view name) const {
  for (const auto& [field, value] : fields_) {
    if (equals_ignoring_case(field, name)) return &value;
  }
  return nullptr;
}

std::string_view Headers::get(std::string_view name) const {
  const std::string* value = find(name);
  return value ? std::string_view(*value) : std::string_view();
}

bool Headers::lists(std::string_view name, std::string_view token) const {
  return std::any_of(fields_.begin(), fields_.end(), [&](const auto& field) {
    return equals_ignoring_case(field.first, name) && list_holds(field.second, token);
  });
}

void Headers::add(std::string name, std::string value) {
  fields_.emplace_back(std::move(name), std::move(value));
}

void Headers::set(std::string name, std::string value) {
  remove(name);
  add(std::move(name), std::move(value));
}

void Headers::remove(std::string_view name) {
  std::erase_if(fields_, [&](const auto& field) { return equals_ignoring_case(field.first, name); });
}

const std::string* Query::find(std::string_view name) const {
  const auto last =
      std::find_if(fields_.rbegin(), fields_.rend(), [&](const auto& pair) { return pair.first == name; });
  return last == fields_.rend() ? nullptr : &last->second;
}

std::string_view reason_phrase(int status) {
  constexpr int kClientClosedRequest = 499;  // nginx's own, which no list of the standard has
  if (status == kClientClosedRequest) return "Client Closed Request";
  const auto phrase = boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
  return {phrase.data(), phrase.size()};
}

}  // namespace fulmar
