// Range arithmetic, and splitting ranges of code points into ranges of bytes.
#include "grammar/code_points.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr uint32_t kFirstPlain = 0x20;
// The largest code point of each length in UTF-8.
constexpr uint32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF, kLastCodePoint};

std::string utf8_of(uint32_t point) {
  std::string bytes;
  append_utf8(point, bytes);
  return bytes;
}

// Byte sequences of one length from `low` to `high`.
struct Sequences {
  std::string low, high;
};

// The ways of a choice by the place that follows, so that bytes that lead to the same place are one way.
using Ways = std::map<Place, ByteSet>;

void add_way(Ways& ways, unsigned first, unsigned last, Place next) {
  for (unsigned byte = first; byte <= last; ++byte) ways[next].set(byte);
}

// Adds the first bytes of the sequences, which are sorted and do not overlap, each with the place that takes
// the rest of its sequence.
void add_sequences(Grammar& g, const std::vector<Sequences>& all, Place next, Ways& ways);

// Returns the place that takes one of the sequences. Empty ones lead to `next`.
Place one_of_sequences(Grammar& g, const std::vector<Sequences>& all, Place next) {
  if (all.front().low.empty()) return next;
  Ways ways;
  add_sequences(g, all, next, ways);
  return g.choose({ways.begin(), ways.end()});
}

void add_sequences(Grammar& g, const std::vector<Sequences>& all, Place next, Ways& ways) {
  std::map<unsigned, std::vector<Sequences>> partial;  // by first byte: rests that are not all there are
  for (const auto& [low, high] : all) {
    const auto first = static_cast<unsigned char>(low.front());
    const auto last = static_cast<unsigned char>(high.front());
    const std::string lowest(low.size() - 1, '\x80');
    const std::string highest(low.size() - 1, '\xBF');
    const std::string low_rest = low.substr(1);
    const std::string high_rest = high.substr(1);
    if (first == last) {
      partial[first].push_back({low_rest, high_rest});
      continue;
    }
    const unsigned whole_first = first + (low_rest == lowest ? 0u : 1u);
    const unsigned whole_last = last - (high_rest == highest ? 0u : 1u);
    if (whole_first > first) partial[first].push_back({low_rest, highest});
    if (whole_first <= whole_last) {
      add_way(ways, whole_first, whole_last, one_of_sequences(g, {{lowest, highest}}, next));
    }
    if (whole_last < last) partial[last].push_back({lowest, high_rest});
  }
  for (const auto& [byte, rests] : partial) add_way(ways, byte, byte, one_of_sequences(g, rests, next));
}

bool needs_escape(uint32_t point) { return point < kFirstPlain || point == '"' || point == '\\'; }

// Returns a name that is different for each set.
std::string name_of(const CodePointSet& set) {
  std::string name;
  for (const auto& [first, last] : set.ranges()) {
    name.append(reinterpret_cast<const char*>(&first), sizeof first);
    name.append(reinterpret_cast<const char*>(&last), sizeof last);
  }
  return name;
}

// Takes a character of more than one byte: those of ASCII are written as escapes.
Place longer_character(Grammar& g, const CodePointSet& set, Place next) {
  std::vector<std::string> escapes;
  Ways ways;
  for (size_t i = 1; i < std::size(kLastOfLength); ++i) {
    std::vector<Sequences> all;
    for (const auto& [first, last] : set.ranges()) {
      const uint32_t from = std::max(first, kLastOfLength[i - 1] + 1);
      const uint32_t to = std::min(last, kLastOfLength[i]);
      if (from <= to) all.push_back({utf8_of(from), utf8_of(to)});
    }
    if (!all.empty()) add_sequences(g, all, next, ways);
  }
  for (const auto& [first, last] : set.ranges()) {
    for (uint32_t point = first; point <= std::min(last, kLastOfLength[0]); ++point) {
      const std::string quoted = json_quoted(std::string(1, static_cast<char>(point)));
      escapes.push_back(quoted.substr(1, quoted.size() - 2));
    }
  }
  const Place others = g.choose({ways.begin(), ways.end()});
  if (escapes.empty()) return others;
  const Place escaped = g.one_of(std::move(escapes), next);
  return ways.empty() ? escaped : g.branch(others, escaped);
}

}  // namespace

CodePointSet CodePointSet::all() { return of(0, kLastCodePoint); }

CodePointSet CodePointSet::of(uint32_t first, uint32_t last) {
  CodePointSet set;
  set.add(first, last);
  return set;
}

void CodePointSet::add(uint32_t first, uint32_t last) {
  if (first < kFirstSurrogate) add_any(first, std::min(last, kFirstSurrogate - 1));
  if (last > kLastSurrogate) add_any(std::max(first, kLastSurrogate + 1), std::min(last, kLastCodePoint));
}

// Adds a range, and joins ranges that overlap or touch.
void CodePointSet::add_any(uint32_t first, uint32_t last) {
  const auto begin = std::find_if(ranges_.begin(), ranges_.end(),
                                  [&](const Range& range) { return range.second + 1 >= first; });
  const auto end =
      std::find_if(begin, ranges_.end(), [&](const Range& range) { return range.first > last + 1; });
  if (begin != end) {
    first = std::min(first, begin->first);
    last = std::max(last, std::prev(end)->second);
  }
  ranges_.insert(ranges_.erase(begin, end), {first, last});
}

void CodePointSet::add(const CodePointSet& other) {
  for (const auto& [first, last] : other.ranges_) add(first, last);
}

CodePointSet CodePointSet::complement() const {
  CodePointSet rest;
  uint32_t from = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > from) rest.add(from, first - 1);
    from = last + 1;
  }
  if (from <= kLastCodePoint) rest.add(from, kLastCodePoint);
  return rest;
}

bool CodePointSet::contains(uint32_t point) const {
  const auto found = std::partition_point(ranges_.begin(), ranges_.end(),
                                          [&](const Range& range) { return range.second < point; });
  return found != ranges_.end() && found->first <= point;
}

bool is_plain(uint32_t point) {
  return !needs_escape(point) && !is_surrogate(point) && point != 0x2028 && point != 0x2029;
}

std::vector<uint32_t> code_points_of(std::string_view text) {
  std::vector<uint32_t> points;
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text.front());
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t point = length == 1 ? lead : lead & (0x7Fu >> length);
    for (size_t i = 1; i < length && i < text.size(); ++i) {
      point = point << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
    }
    points.push_back(point);
    text.remove_prefix(std::min(length, text.size()));
  }
  return points;
}

Place character_of(Grammar& grammar, const CodePointSet& set, CharacterForm form, Place next) {
  ByteSet plain;
  CodePointSet longer;
  for (const auto& [first, last] : set.ranges()) {
    for (uint32_t point = first; point <= std::min(last, kLastOfLength[0]); ++point) {
      if (form == CharacterForm::plain || !needs_escape(point)) {
        plain.set(point);
      } else {
        longer.add(point, point);
      }
    }
    if (last > kLastOfLength[0]) longer.add(std::max(first, kLastOfLength[0] + 1), last);
  }
  if (longer.empty()) return plain.any() ? grammar.take(plain, next) : grammar.nothing();
  const Rule rule =
      grammar.shared_rule(name_of(longer), [&] { return longer_character(grammar, longer, grammar.end()); });
  const Place call = grammar.call(rule, next);
  return plain.any() ? grammar.branch(grammar.take(plain, next), call) : call;
}

}  // namespace fulmar
