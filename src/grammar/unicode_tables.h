// Which code points have a general category, and which belong to a script.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "grammar/code_points.h"

namespace fulmar {

// What \p{...} names in ECMA-262: a general category by its short name or one of the long names in use
// ("L", "Lu", "Letter", with or without "General_Category=" or "gc="), a script ("Script=Greek" or "sc="),
// "Any", "ASCII" or "Assigned". Nothing: none that is known.
std::optional<CodePointSet> unicode_property(std::string_view name);
// All that have a category other than Cn.
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
