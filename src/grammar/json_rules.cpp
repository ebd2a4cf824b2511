// JSON's forms (RFC 8259), strings as valid UTF-8 without lone surrogates.
#include "grammar/json_rules.h"

#include <algorithm>
#include <string>

namespace fulmar {
namespace {

Rule one_byte_of(Grammar& grammar, std::string_view bytes) {
  ByteSet set;
  for (const char byte : bytes) set.set(static_cast<unsigned char>(byte));
  return grammar.rule(grammar.take(set, grammar.end()));
}

std::optional<Rule> make_gap(Grammar& g, Whitespace whitespace) {
  if (whitespace == Whitespace::none) return std::nullopt;
  if (whitespace == Whitespace::flexible) {
    return g.rule(g.repeat(one_byte_of(g, " \t\n\r"), 1, kMaxGap, g.end()));
  }
  const Place line = g.text("\n", g.repeat(one_byte_of(g, " \t"), 0, kMaxIndent, g.end()));
  return g.rule(g.branch(g.text(" ", g.end()), line));
}

}  // namespace

JsonRules::JsonRules(Grammar& grammar, Whitespace whitespace)
    : grammar_(grammar),
      character_(make_character()),
      digit_(grammar.rule(grammar.take_range('0', '9', grammar.end()))),
      gap_(make_gap(grammar, whitespace)) {}

Place JsonRules::gap(Place next) { return gap_ ? grammar_.branch(next, grammar_.call(*gap_, next)) : next; }

Place JsonRules::open(std::string_view sign, Place next) { return grammar_.text(sign, gap(next)); }

Place JsonRules::close(std::string_view sign, Place next) { return gap(grammar_.text(sign, next)); }

Place JsonRules::comma(Place next) { return gap(grammar_.text(",", gap(next))); }

Place JsonRules::colon(Place next) { return gap(grammar_.text(":", gap(next))); }

Place JsonRules::hex_digits(int count, Place next) {
  ByteSet hex;
  for (const char c : std::string_view("0123456789abcdefABCDEF")) hex.set(static_cast<unsigned char>(c));
  for (int i = 0; i < count; ++i) next = grammar_.take(hex, next);
  return next;
}

Rule JsonRules::make_character() {
  Grammar& g = grammar_;
  const Place end = g.end();
  ByteSet plain;
  for (unsigned byte = 0x20; byte < 0x80; ++byte) plain[byte] = byte != '"' && byte != '\\';
  const Place one_more = g.take_range(0x80, 0xBF, end);
  const Place two_more = g.take_range(0x80, 0xBF, one_more);
  const Place three_more = g.take_range(0x80, 0xBF, two_more);

  ByteSet short_escapes;
  for (const char c : std::string_view("\"\\/bfnrt")) short_escapes.set(static_cast<unsigned char>(c));
  ByteSet not_d;
  for (const char c : std::string_view("0123456789abcefABCEF")) not_d.set(static_cast<unsigned char>(c));
  ByteSet d;
  d.set('d').set('D');
  const Place code =
      g.branch(g.take(not_d, hex_digits(3, end)), g.take(d, g.take_range('0', '7', hex_digits(2, end))));
  const Place escape = g.text("\\", g.branch(g.take(short_escapes, end), g.text("u", code)));
  const Place plain_character = g.take(plain, end);
  const Rule character = g.rule(g.branch({
      plain_character,
      escape,
      g.take_range(0xC2, 0xDF, one_more),
      g.text("\xE0", g.take_range(0xA0, 0xBF, one_more)),
      g.take_range(0xE1, 0xEC, two_more),
      g.text("\xED", g.take_range(0x80, 0x9F, one_more)),
      g.take_range(0xEE, 0xEF, two_more),
      g.text("\xF0", g.take_range(0x90, 0xBF, two_more)),
      g.take_range(0xF1, 0xF3, three_more),
      g.text("\xF4", g.take_range(0x80, 0x8F, two_more)),
  }));
  g.set_text(character, plain_character);
  return character;
}

Place JsonRules::string(int64_t least, int64_t most, Place next) {
  return grammar_.text("\"", grammar_.repeat(character_, least, most, grammar_.text("\"", next)));
}

// Takes digits from `low` to `high`, of the same length; at_low, at_high: all before equal the bound's.
Place JsonRules::digits_between(std::string_view low, std::string_view high, bool at_low, bool at_high,
                                Place next) {
  if (low.empty()) return next;
  if (!at_low && !at_high) {
    const auto count = static_cast<int64_t>(low.size());
    return grammar_.repeat(digit_, count, count, next);
  }
  const char first = at_low ? low.front() : '0';
  const char last = at_high ? high.front() : '9';
  std::vector<Place> choices;
  const auto add = [&](char from, char to, bool still_low, bool still_high) {
    if (from > to) return;
    const Place rest = digits_between(low.substr(1), high.substr(1), still_low, still_high, next);
    choices.push_back(
        grammar_.take_range(static_cast<unsigned char>(from), static_cast<unsigned char>(to), rest));
  };
  if (first == last) {
    add(first, last, at_low, at_high);
  } else {
    const char inner_first = static_cast<char>(first + (at_low ? 1 : 0));
    const char inner_last = static_cast<char>(last - (at_high ? 1 : 0));
    if (at_low) add(first, first, true, false);
    add(inner_first, inner_last, false, false);
    if (at_high) add(last, last, false, true);
  }
  return grammar_.branch(choices);
}

Place JsonRules::digits(const DigitRange& range, Place next) {
  const size_t shortest = range.least.size(), longest = range.most.size();
  if (shortest == longest) return digits_between(range.least, range.most, true, true, next);
  std::vector<Place> choices;
  choices.push_back(digits_between(range.least, std::string(shortest, '9'), true, true, next));
  if (longest > shortest + 1) {
    const Place more =
        grammar_.repeat(digit_, static_cast<int64_t>(shortest), static_cast<int64_t>(longest) - 2, next);
    choices.push_back(grammar_.take_range('1', '9', more));
  }
  choices.push_back(digits_between("1" + std::string(longest - 1, '0'), range.most, true, true, next));
  return grammar_.branch(choices);
}

Place JsonRules::number(Place next) {
  Grammar& g = grammar_;
  ByteSet signs;
  signs.set('+').set('-');
  const Place power_digits = g.repeat(digit_, 1, 2, next);
  const Place power = g.text("e", g.branch(g.take(signs, power_digits), power_digits));
  const Place end_of_digits = g.branch(next, power);
  const Place fraction = g.text(".", g.repeat(digit_, 1, kFractionDigits, end_of_digits));
  const Place unsigned_number = digits({"0", std::string(kLargestWhole)}, g.branch(end_of_digits, fraction));
  return g.branch(unsigned_number, g.text("-", unsigned_number));
}

Place JsonRules::object_of(Rule value, Place next) {
  Grammar& g = grammar_;
  const Rule member = g.rule(string(0, -1, colon(g.call(value, g.end()))));
  const Rule further = g.rule(comma(g.call(member, g.end())));
  const Place some = g.call(member, g.repeat(further, 0, -1, close("}", next)));
  return open("{", g.branch(close_at_once("}", next), some));
}

Place JsonRules::array_of(Rule value, int64_t least, int64_t most, Place next) {
  Grammar& g = grammar_;
  const Place empty = close_at_once("]", next);
  if (most == 0) return open("[", empty);
  const Rule further = g.rule(comma(g.call(value, g.end())));
  const Place some = g.call(
      value, g.repeat(further, std::max<int64_t>(0, least - 1), most < 0 ? -1 : most - 1, close("]", next)));
  return open("[", least > 0 ? some : g.branch(empty, some));
}

Rule JsonRules::any_object(int depth) {
  const Rule value = any_value(depth - 1);
  return grammar_.rule(object_of(value, grammar_.end()));
}

Rule JsonRules::any_value(int depth) {
  Grammar& g = grammar_;
  while (static_cast<int>(values_.size()) <= depth) {
    const Place end = g.end();
    std::vector<Place> choices = {string(0, -1, end), number(end), g.text("true", end), g.text("false", end),
                                  g.text("null", end)};
    if (!values_.empty()) {
      choices.push_back(object_of(values_.back(), end));
      choices.push_back(array_of(values_.back(), 0, -1, end));
    }
    values_.push_back(g.rule(g.branch(choices)));
  }
  return values_[static_cast<size_t>(depth)];
}

}  // namespace fulmar
