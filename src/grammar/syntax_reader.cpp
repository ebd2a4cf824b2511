// Reading what GBNF and Lark have in common.
#include "grammar/syntax_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace fulmar {

SyntaxReader::SyntaxReader(std::string_view text) : points_(code_points_of(text)) {}

uint32_t SyntaxReader::next() {
  const uint32_t point = peek();
  if (point == '\n') ++line_;
  if (!at_end()) ++at_;
  return point;
}

bool SyntaxReader::take(uint32_t point) {
  if (at_end() || peek() != point) return false;
  next();
  return true;
}

bool SyntaxReader::take(std::string_view ascii) {
  for (size_t i = 0; i < ascii.size(); ++i) {
    if (at_ + i >= points_.size() || points_[at_ + i] != static_cast<unsigned char>(ascii[i])) return false;
  }
  for (size_t i = 0; i < ascii.size(); ++i) next();
  return true;
}

Error SyntaxReader::error(std::string_view what) const {
  return {ErrorKind::invalid, fmt::format("the grammar's line {}: {}", line_, what)};
}

Error SyntaxReader::unsupported(std::string_view what) const {
  return {ErrorKind::unsupported, fmt::format("the grammar's line {}: {} is not supported", line_, what)};
}

std::optional<int64_t> SyntaxReader::number() {
  if (peek() < '0' || peek() > '9') return std::nullopt;
  int64_t value = 0;
  while (peek() >= '0' && peek() <= '9') value = std::min(value * 10 + (next() - '0'), kMaxRepeat + 1);
  return value;
}

Result<SyntaxNode> SyntaxReader::braces(SyntaxNode one) {
  const auto from = number();
  const bool comma = take(',');
  const auto to = comma ? number() : from;
  if ((!from && !to) || !take('}')) return error("a count; wanted {n}, {n,}, {,m} or {n,m}");
  const int64_t least = from.value_or(0);
  const int64_t most = to.value_or(-1);
  if (least > kMaxRepeat || most > kMaxRepeat) {
    return error(fmt::format("a repetition of more than {} times, which is the limit", kMaxRepeat));
  }
  if (most >= 0 && least > most) return error(fmt::format("a count from {} to {}", least, most));
  return SyntaxNode::repeated(std::move(one), least, most);
}

Result<uint32_t> SyntaxReader::hexadecimal(int digits) {
  uint32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const uint32_t digit = peek();
    const bool decimal = digit >= '0' && digit <= '9';
    const uint32_t letter = digit | 0x20u;
    if (!decimal && (letter < 'a' || letter > 'f')) {
      return error(fmt::format("an unfinished escape; wanted {} hexadecimal digits", digits));
    }
    value = value * 16 + (decimal ? digit - '0' : letter - 'a' + 10);
    next();
  }
  if (value > kLastCodePoint || is_surrogate(value))
    return error(fmt::format("no character: U+{:04X}", value));
  return value;
}

Result<uint32_t> SyntaxReader::escape() {
  const uint32_t letter = next();
  switch (letter) {
    case 'n':
      return uint32_t{'\n'};
    case 'r':
      return uint32_t{'\r'};
    case 't':
      return uint32_t{'\t'};
    case 'f':
      return uint32_t{'\f'};
    case 'x':
      return hexadecimal(2);
    case 'u':
      return hexadecimal(4);
    case 'U':
      return hexadecimal(8);
    default:
      break;
  }
  const bool stands_for_itself = letter >= 0x21 && letter < 0x7F && !(letter >= '0' && letter <= '9') &&
                                 !((letter | 0x20u) >= 'a' && (letter | 0x20u) <= 'z');
  if (!stands_for_itself) return error("an unknown escape");
  return letter;
}

Result<std::string> SyntaxReader::quoted() {
  std::string text;
  while (!take('"')) {
    if (at_end() || peek() == '\n') return error("a '\"' that is never closed");
    uint32_t point = next();
    if (point == '\\') {
      FULMAR_ASSIGN(point, escape());
    }
    append_utf8(point, text);
  }
  return text;
}

Result<CodePointSet> SyntaxReader::bracket() {
  const bool negated = take('^');
  CodePointSet set;
  const auto character = [&]() -> Result<uint32_t> {
    if (at_end()) return error("a '[' that is never closed");
    const uint32_t point = next();
    return point == '\\' ? escape() : Result<uint32_t>(point);
  };
  while (!take(']')) {
    FULMAR_ASSIGN(const uint32_t first, character());
    uint32_t last = first;
    if (peek() == '-' && peek(1) != ']') {
      next();
      FULMAR_ASSIGN(last, character());
    }
    if (first > last) return error("a range with its ends in the wrong order");
    set.add(first, last);
  }
  return negated ? set.complement() : set;
}

size_t SyntaxReader::rule(const std::string& name) {
  const auto [found, fresh] = numbers_.emplace(name, rules_.size());
  if (fresh) {
    rules_.push_back({name, {}, line_});
    defined_.push_back(false);
  }
  return found->second;
}

bool SyntaxReader::defines(const std::string& name) const {
  const auto found = numbers_.find(name);
  return found != numbers_.end() && defined_[found->second];
}

Status SyntaxReader::define(const std::string& name, SyntaxNode body, int line) {
  const size_t number = rule(name);
  if (defined_[number]) return error(fmt::format("rule '{}' is defined twice", name));
  defined_[number] = true;
  rules_[number].body = std::move(body);
  rules_[number].line = line;
  return {};
}

Result<Syntax> SyntaxReader::finish(const std::string& root) {
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (defined_[i]) continue;
    return Error{ErrorKind::invalid, fmt::format("the grammar's line {}: rule '{}' is used and never defined",
                                                 rules_[i].line, rules_[i].name)};
  }
  if (!defines(root)) {
    return Error{ErrorKind::invalid,
                 fmt::format("the grammar has no rule '{}', where its texts begin", root)};
  }
  return Syntax{std::move(rules_), numbers_.at(root)};
}

}  // namespace fulmar
