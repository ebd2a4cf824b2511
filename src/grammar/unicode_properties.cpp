// Reads the tables once, when the first pattern asks.
#include <charconv>
#include <map>
#include <string>
#include <utility>

#include "grammar/unicode_tables.h"

namespace fulmar {
namespace {

constexpr std::pair<std::string_view, std::string_view> kLongNames[] = {
    {"Letter", "L"},
    {"Uppercase_Letter", "Lu"},
    {"Lowercase_Letter", "Ll"},
    {"Titlecase_Letter", "Lt"},
    {"Modifier_Letter", "Lm"},
    {"Other_Letter", "Lo"},
    {"Mark", "M"},
    {"Combining_Mark", "M"},
    {"Nonspacing_Mark", "Mn"},
    {"Spacing_Mark", "Mc"},
    {"Enclosing_Mark", "Me"},
    {"Number", "N"},
    {"Decimal_Number", "Nd"},
    {"digit", "Nd"},
    {"Letter_Number", "Nl"},
    {"Other_Number", "No"},
    {"Punctuation", "P"},
    {"punct", "P"},
    {"Connector_Punctuation", "Pc"},
    {"Dash_Punctuation", "Pd"},
    {"Open_Punctuation", "Ps"},
    {"Close_Punctuation", "Pe"},
    {"Initial_Punctuation", "Pi"},
    {"Final_Punctuation", "Pf"},
    {"Other_Punctuation", "Po"},
    {"Symbol", "S"},
    {"Math_Symbol", "Sm"},
    {"Currency_Symbol", "Sc"},
    {"Modifier_Symbol", "Sk"},
    {"Other_Symbol", "So"},
    {"Separator", "Z"},
    {"Space_Separator", "Zs"},
    {"Line_Separator", "Zl"},
    {"Paragraph_Separator", "Zp"},
    {"Other", "C"},
    {"Control", "Cc"},
    {"cntrl", "Cc"},
    {"Format", "Cf"},
    {"Private_Use", "Co"},
};

// Reads a number in hexadecimal digits and removes it.
uint32_t take_number(std::string_view& text) {
  uint32_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// Returns the categories by short name; "L" holds all that begin with it.
std::map<std::string, CodePointSet, std::less<>> read_categories() {
  std::map<std::string, CodePointSet, std::less<>> sets;
  std::string_view text = kUnicodeCategories;
  while (!text.empty()) {
    const uint32_t first = take_number(text);
    const std::string name(text.substr(1, 2));
    text.remove_prefix(4);
    std::string_view ahead = text;
    const uint32_t last = ahead.empty() ? kLastCodePoint : take_number(ahead) - 1;
    sets[name].add(first, last);
    sets[name.substr(0, 1)].add(first, last);
  }
  return sets;
}

const std::map<std::string, CodePointSet, std::less<>>& categories() {
  static const auto sets = read_categories();
  return sets;
}

std::optional<CodePointSet> script(std::string_view name) {
  for (size_t i = 0; i < kUnicodeScriptCount; ++i) {
    if (kUnicodeScripts[i].name != name) continue;
    CodePointSet set;
    std::string_view text = kUnicodeScripts[i].ranges;
    while (!text.empty()) {
      const uint32_t first = take_number(text);
      text.remove_prefix(1);
      set.add(first, take_number(text));
      text.remove_prefix(1);
    }
    return set;
  }
  return std::nullopt;
}

}  // namespace

const CodePointSet& assigned_code_points() {
  static const CodePointSet set = categories().at("Cn").complement();
  return set;
}

std::optional<CodePointSet> unicode_property(std::string_view name) {
  for (const std::string_view prefix : {"Script=", "sc="}) {
    if (name.starts_with(prefix)) return script(name.substr(prefix.size()));
  }
  if (name == "Any") return CodePointSet::all();
  if (name == "ASCII") return CodePointSet::of(0, 0x7F);
  if (name == "Assigned") return assigned_code_points();
  for (const std::string_view prefix : {"General_Category=", "gc="}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  for (const auto& [long_name, short_name] : kLongNames) {
    if (long_name == name) name = short_name;
  }
  const auto found = categories().find(name);
  if (found == categories().end() || name == "Cs") return std::nullopt;
  return found->second;
}

}  // namespace fulmar
