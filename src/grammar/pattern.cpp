// Recursive descent over the pattern's code points.
#include "grammar/pattern.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/utf8.h"
#include "grammar/unicode_tables.h"

namespace fulmar {
namespace {

CodePointSet digits() { return CodePointSet::of('0', '9'); }

CodePointSet word_characters() {
  CodePointSet set = digits();
  set.add('A', 'Z');
  set.add('a', 'z');
  set.add('_', '_');
  return set;
}

CodePointSet line_ends() {
  CodePointSet set = CodePointSet::of('\n', '\n');
  set.add('\r', '\r');
  set.add(0x2028, 0x2029);
  return set;
}

CodePointSet blanks() {
  CodePointSet set = line_ends();
  set.add('\t', '\r');
  set.add(' ', ' ');
  set.add(0x2000, 0x200A);
  for (const uint32_t point : {0xA0u, 0x1680u, 0x202Fu, 0x205Fu, 0x3000u, 0xFEFFu}) set.add(point, point);
  return set;
}

Pattern of_kind(Pattern::Kind kind) {
  Pattern pattern;
  pattern.kind = kind;
  return pattern;
}

Pattern of_set(CodePointSet set) {
  Pattern pattern = of_kind(Pattern::Kind::characters);
  pattern.set = std::move(set);
  return pattern;
}

// Returns whether nothing follows any '$' of the pattern; `last`: nothing follows the pattern.
bool ends_last(const Pattern& pattern, bool last) {
  if (pattern.kind == Pattern::Kind::end) return last;
  const bool in_order = pattern.kind == Pattern::Kind::sequence;
  const bool repeats = pattern.kind == Pattern::Kind::repeat && pattern.most != 1;
  for (size_t i = 0; i < pattern.parts.size(); ++i) {
    const bool last_part = last && !repeats && (!in_order || i + 1 == pattern.parts.size());
    if (!ends_last(pattern.parts[i], last_part)) return false;
  }
  return true;
}

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : points_(code_points_of(text)) {}

  Result<Pattern> parse() {
    FULMAR_ASSIGN(Pattern whole, choice(0));
    if (!at_end()) return broken("a ')' that closes nothing");
    return whole;
  }

 private:
  bool at_end() const { return at_ >= points_.size(); }
  uint32_t peek(size_t ahead = 0) const { return at_ + ahead < points_.size() ? points_[at_ + ahead] : 0; }
  bool next_is(uint32_t point) const { return !at_end() && peek() == point; }
  bool take(uint32_t point) {
    if (!next_is(point)) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (at_ + i >= points_.size() || points_[at_ + i] != static_cast<unsigned char>(text[i])) return false;
    }
    at_ += text.size();
    return true;
  }

  Error unsupported(std::string_view what) const {
    return {ErrorKind::unsupported, fmt::format("{} at offset {} is not supported", what, at_)};
  }
  Error broken(std::string_view what) const {
    return {ErrorKind::invalid, fmt::format("it is no regular expression: {} at offset {}", what, at_)};
  }

  Result<Pattern> choice(int depth) {
    if (depth > kMaxGroupDepth) {
      return unsupported(fmt::format("nesting of more than {} groups", kMaxGroupDepth));
    }
    Pattern all = of_kind(Pattern::Kind::choice);
    do {
      if (depth == 0) end_seen_ = false;
      FULMAR_ASSIGN(Pattern one, sequence(depth));
      all.parts.push_back(std::move(one));
    } while (take('|'));
    if (all.parts.size() > 1) return all;
    return std::move(all.parts.front());
  }

  Result<Pattern> sequence(int depth) {
    Pattern all = of_kind(Pattern::Kind::sequence);
    while (!at_end() && peek() != '|' && peek() != ')') {
      FULMAR_ASSIGN(Pattern one, atom(depth));
      FULMAR_ASSIGN(one, quantified(std::move(one)));
      all.parts.push_back(std::move(one));
    }
    return all;
  }

  Result<Pattern> atom(int depth) {
    if (take('^')) {
      if (in_ahead_ > 0) return unsupported("'^' within a lookahead");
      return of_kind(Pattern::Kind::begin);
    }
    if (take('$')) {
      end_seen_ = end_seen_ || in_ahead_ == 0;
      return of_kind(Pattern::Kind::end);
    }
    if (take('(')) return group(depth);
    if (take('[')) return bracket();
    if (take('.')) return of_set(line_ends().complement());
    if (take('\\')) return escape();
    if (peek() == '*' || peek() == '+' || peek() == '?')
      return broken("a quantifier without anything before it");
    const uint32_t point = points_[at_++];
    return of_set(CodePointSet::of(point, point));
  }

  Result<Pattern> group(int depth) {
    std::optional<Pattern::Kind> ahead;
    if (take('?')) {
      if (take('=')) {
        ahead = Pattern::Kind::ahead;
      } else if (take('!')) {
        ahead = Pattern::Kind::not_ahead;
      } else if (next_is('<') && (peek(1) == '=' || peek(1) == '!')) {
        return unsupported("a lookbehind");
      } else if (take('<')) {
        while (!at_end() && peek() != '>') ++at_;
        if (!take('>')) return broken("an unfinished name of a group");
      } else if (!take(':')) {
        return unsupported("a group with flags");
      }
    }
    if (ahead && end_seen_) return unsupported("a lookahead behind '$'");
    in_ahead_ += ahead ? 1 : 0;
    FULMAR_ASSIGN(Pattern inner, choice(depth + 1));
    in_ahead_ -= ahead ? 1 : 0;
    if (ahead && !ends_last(inner, true)) return unsupported("'$' before the end of a lookahead");
    if (!take(')')) return broken("a '(' that is never closed");
    if (!ahead) return inner;
    Pattern look = of_kind(*ahead);
    look.parts.push_back(std::move(inner));
    return look;
  }

  std::optional<int64_t> number() {
    if (at_end() || peek() < '0' || peek() > '9') return std::nullopt;
    int64_t value = 0;
    while (!at_end() && peek() >= '0' && peek() <= '9') {
      value = std::min<int64_t>(value * 10 + (points_[at_++] - '0'), kMaxRepeat + 1);
    }
    return value;
  }

  Result<Pattern> quantified(Pattern one) {
    const size_t start = at_;
    int64_t least = 0;
    int64_t most = -1;
    if (take('*')) {
    } else if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (take('{')) {
      const auto from = number();
      const bool comma = from && take(',');
      const auto to = comma ? number() : from;
      if (!from || !take('}')) {  // a brace that is no quantifier stands for itself
        at_ = start;
        return one;
      }
      least = *from;
      most = to.value_or(-1);
    } else {
      return one;
    }
    take('?');
    if (least > kMaxRepeat || most > kMaxRepeat) {
      return unsupported(fmt::format("a repetition of more than {} times", kMaxRepeat));
    }
    if (most >= 0 && least > most) return broken("a quantifier with its bounds in the wrong order");
    const bool assertion = one.kind == Pattern::Kind::begin || one.kind == Pattern::Kind::end ||
                           one.kind == Pattern::Kind::ahead || one.kind == Pattern::Kind::not_ahead;
    if (assertion) return unsupported("a quantifier behind an assertion");
    if (next_is('*') || next_is('+') || next_is('?')) return broken("a quantifier behind a quantifier");
    Pattern repeat = of_kind(Pattern::Kind::repeat);
    repeat.least = least;
    repeat.most = most;
    repeat.parts.push_back(std::move(one));
    return repeat;
  }

  // Parses what follows "\\p" or "\\P". Code points that Unicode has not assigned yet belong to neither.
  Result<CodePointSet> property() {
    const bool negated = points_[at_++] == 'P';
    std::string name;
    if (!take('{')) return broken("an unfinished name of a property");
    while (!at_end() && peek() != '}' && peek() < 0x80) name += static_cast<char>(points_[at_++]);
    if (!take('}')) return broken("an unfinished name of a property");
    const auto set = unicode_property(name);
    if (!set) return unsupported(fmt::format("the property '{}' of Unicode", name));
    if (!negated) return *set;
    CodePointSet others = set->complement();
    CodePointSet unassigned = assigned_code_points().complement();
    unassigned.add(*set);
    return name == "Assigned" ? others : unassigned.complement();
  }

  // Returns the set of \d and the like; nothing for other escapes.
  std::optional<CodePointSet> class_escape(uint32_t letter) const {
    switch (letter) {
      case 'd':
        return digits();
      case 'D':
        return digits().complement();
      case 'w':
        return word_characters();
      case 'W':
        return word_characters().complement();
      case 's':
        return blanks();
      case 'S':
        return blanks().complement();
      default:
        return std::nullopt;
    }
  }

  Result<Pattern> escape() {
    if (at_end()) return broken("a '\\' at the end");
    if (auto set = class_escape(peek())) {
      ++at_;
      return of_set(std::move(*set));
    }
    if (peek() == 'p' || peek() == 'P') {
      FULMAR_ASSIGN(CodePointSet set, property());
      return of_set(std::move(set));
    }
    if (peek() == 'b' || peek() == 'B') return unsupported("a word boundary");
    FULMAR_ASSIGN(const uint32_t point, character_escape());
    return of_set(CodePointSet::of(point, point));
  }

  std::optional<uint32_t> hexadecimal(size_t count) {
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t digit = peek(i);
      const bool decimal = digit >= '0' && digit <= '9';
      const uint32_t letter = digit | 0x20u;
      if (!decimal && (letter < 'a' || letter > 'f')) return std::nullopt;
      value = value * 16 + (decimal ? digit - '0' : letter - 'a' + 10);
    }
    at_ += count;
    return value;
  }

  // Parses what follows "\u": four digits, a pair of surrogates, or up to six digits in braces.
  Result<uint32_t> unicode_escape() {
    if (take('{')) {
      size_t count = 0;
      while (count <= 6 && at_ + count < points_.size() && peek(count) != '}') ++count;
      const auto point = count > 0 && count <= 6 ? hexadecimal(count) : std::nullopt;
      if (!point || !take('}') || *point > kLastCodePoint) return broken("an unfinished escape");
      return *point;
    }
    const auto high = hexadecimal(4);
    if (!high) return broken("an unfinished escape");
    if (*high < 0xD800 || *high > 0xDBFF) return *high;
    const auto low = take(std::string_view("\\u")) ? hexadecimal(4) : std::nullopt;
    if (!low || *low < 0xDC00 || *low > 0xDFFF) return unsupported("half a pair of surrogates");
    return 0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00);
  }

  Result<uint32_t> character_escape() {
    const uint32_t letter = points_[at_];
    if ((letter >= '1' && letter <= '9') || letter == 'k') return unsupported("a reference back");
    ++at_;
    switch (letter) {
      case 't':
        return uint32_t{'\t'};
      case 'n':
        return uint32_t{'\n'};
      case 'v':
        return uint32_t{'\v'};
      case 'f':
        return uint32_t{'\f'};
      case 'r':
        return uint32_t{'\r'};
      case '0':
        if (peek() >= '0' && peek() <= '9') return unsupported("an octal escape");
        return uint32_t{0};
      case 'u':
        return unicode_escape();
      case 'x': {
        const auto point = hexadecimal(2);
        if (!point) return broken("an unfinished escape");
        return *point;
      }
      case 'c': {
        const uint32_t control = peek() | 0x20u;
        if (control < 'a' || control > 'z') return broken("an unfinished escape");
        return points_[at_++] & 0x1Fu;
      }
      default:
        break;
    }
    const bool letter_or_digit = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
    if (letter_or_digit) return broken(fmt::format("an escape of '{}'", static_cast<char>(letter)));
    return letter;
  }

  // Parses one end of a range, or a class by itself.
  Result<CodePointSet> bracket_member() {
    if (!take('\\')) {
      const uint32_t point = points_[at_++];
      return CodePointSet::of(point, point);
    }
    if (at_end()) return broken("a '[' that is never closed");
    if (auto set = class_escape(peek())) {
      ++at_;
      return std::move(*set);
    }
    if (peek() == 'p' || peek() == 'P') return property();
    if (take('b')) return CodePointSet::of('\b', '\b');
    if (take('-')) return CodePointSet::of('-', '-');
    FULMAR_ASSIGN(const uint32_t point, character_escape());
    return CodePointSet::of(point, point);
  }

  Result<Pattern> bracket() {
    const bool negated = take('^');
    CodePointSet set;
    while (!next_is(']')) {
      if (at_end()) return broken("a '[' that is never closed");
      FULMAR_ASSIGN(const CodePointSet first, bracket_member());
      set.add(first);
      if (!next_is('-') || at_ + 1 >= points_.size() || peek(1) == ']') continue;
      ++at_;
      FULMAR_ASSIGN(const CodePointSet last, bracket_member());
      const auto single = [](const CodePointSet& one) {
        return one.ranges().size() == 1 && one.ranges()[0].first == one.ranges()[0].second;
      };
      if (!single(first) || !single(last)) return unsupported("a range from or to a class");
      const uint32_t from = first.ranges()[0].first;
      const uint32_t to = last.ranges()[0].first;
      if (from > to) return broken("a range with its ends in the wrong order");
      set.add(from, to);
    }
    ++at_;
    return of_set(negated ? set.complement() : std::move(set));
  }

  std::vector<uint32_t> points_;
  size_t at_ = 0;
  int in_ahead_ = 0;       // how many lookaheads are open
  bool end_seen_ = false;  // a '$' within the open alternative, outside of lookaheads
};

}  // namespace

Result<Pattern> parse_pattern(std::string_view text) {
  if (text.size() > kMaxPatternBytes) {
    return Error{ErrorKind::unsupported,
                 fmt::format("it holds {} bytes; at most {} are allowed", text.size(), kMaxPatternBytes)};
  }
  if (!is_utf8(text)) return Error{ErrorKind::invalid, "it is no UTF-8"};
  return PatternParser(text).parse();
}

}  // namespace fulmar
