// Several workers' pages of a list as one page. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fulmar {

// Where a list lies in an answer, and what tells its entries apart.
struct ListForm {
  std::string_view path;    // of the route
  std::string_view member;  // that holds the entries
  std::string_view key;     // of an entry: its id, in whose order they stand
  bool paged = false;       // at most `limit` entries, and `has_more`
};

// Returns the form of a route's list.
const ListForm& list_form(std::string_view path);

// Merges the pages into one: equal entries stand once, those of one id side by side. Returns nothing where a
// page is no list of that form. `limit`: as the workers were asked; has_more tells of entries beyond it.
std::optional<std::string> merge_lists(const ListForm& form, const std::vector<std::string_view>& pages,
                                       int64_t limit);

}  // namespace fulmar
