// Code points by general category and by script.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "grammar/code_points.h"

namespace fulmar {

// Returns what \p{...} means in ECMA-262: a general category by its short name or one of its usual long names
// ("L", "Lu", "Letter", with or without "General_Category=" or "gc="), a script ("Script=Greek" or "sc="),
// "Any", "ASCII" or "Assigned". Nothing: the name is unknown.
std::optional<CodePointSet> unicode_property(std::string_view name);
// Returns all code points of a category other than Cn.
const CodePointSet& assigned_code_points();

// The generated tables: "41:Lu 5b:Ps ..." and "370-373 375-377 ...", in hexadecimal digits.
struct UnicodeScript {
  std::string_view name;
  std::string_view ranges;
};
extern const std::string_view kUnicodeCategories;
extern const UnicodeScript kUnicodeScripts[];
extern const size_t kUnicodeScriptCount;

}  // namespace fulmar
