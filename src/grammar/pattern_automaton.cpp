// From a pattern to its automaton: Thompson's construction from the end, then the subset construction. The
// two ends of a string are symbols of their own, so that ^ and $ take something and a search is "anything,
// the pattern, anything".
#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <iterator>
#include <map>

#include "grammar/text_automaton.h"

namespace fulmar {
namespace {

constexpr size_t kMaxSymbols = 256;
constexpr size_t kBegin = kMaxSymbols;
constexpr size_t kEnd = kMaxSymbols + 1;
using Symbols = std::bitset<kMaxSymbols + 2>;
using States = std::vector<int32_t>;  // in order

void collect_sets(const Pattern& pattern, std::vector<const CodePointSet*>& sets) {
  if (pattern.kind == Pattern::Kind::characters) sets.push_back(&pattern.set);
  for (const Pattern& part : pattern.parts) collect_sets(part, sets);
}

}  // namespace

class PatternCompiler {
 public:
  explicit PatternCompiler(Budget& budget) : budget_(budget) {}

  Result<TextAutomaton> compile(const Pattern& pattern) {
    FULMAR_TRY(divide(pattern));
    anything_.set();
    for (size_t i = automaton_.width_; i < kMaxSymbols; ++i) anything_.reset(i);
    FULMAR_ASSIGN(done_, state());
    states_[static_cast<size_t>(done_)].symbols = anything_;
    states_[static_cast<size_t>(done_)].next = done_;
    FULMAR_ASSIGN(const int32_t found, place(pattern, done_));
    FULMAR_ASSIGN(const int32_t start, state());
    State& search = states_[static_cast<size_t>(start)];
    search.symbols = anything_;
    search.next = start;
    search.free = {found};
    FULMAR_TRY(determine(start));
    automaton_.drop_useless();
    return std::move(automaton_);
  }

 private:
  struct State {
    Symbols symbols;
    int32_t next = -1;          // after one of the symbols
    std::vector<int32_t> free;  // reached without any
  };

  // Cuts the code points where a set begins or ends, and joins the pieces that are in the same sets.
  Status divide(const Pattern& pattern) {
    std::vector<const CodePointSet*> sets;
    collect_sets(pattern, sets);
    std::vector<uint32_t>& starts = automaton_.starts_;
    starts = {0, kFirstSurrogate, kLastSurrogate + 1};
    for (const CodePointSet* set : sets) {
      for (const auto& [first, last] : set->ranges()) {
        starts.push_back(first);
        if (last < kLastCodePoint) starts.push_back(last + 1);
      }
    }
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    FULMAR_TRY(budget_.take(Budget::Item::work, starts.size() * (sets.size() + 1)));
    std::map<std::vector<bool>, int32_t> names;
    for (const uint32_t start : starts) {
      if (is_surrogate(start)) {  // no character: a symbol of its own would stand for none
        automaton_.symbols_.push_back(-1);
        continue;
      }
      std::vector<bool> within;
      for (const CodePointSet* set : sets) within.push_back(set->contains(start));
      const auto [found, fresh] = names.emplace(std::move(within), static_cast<int32_t>(names.size()));
      automaton_.symbols_.push_back(found->second);
    }
    automaton_.width_ = names.size();
    if (names.size() <= kMaxSymbols) return {};
    return Error{ErrorKind::unsupported,
                 fmt::format("it tells {} kinds of characters apart; at most {} are allowed", names.size(),
                             kMaxSymbols)};
  }

  Symbols symbols_of(const CodePointSet& set) const {
    Symbols symbols;
    for (size_t i = 0; i < automaton_.starts_.size(); ++i) {
      const int32_t symbol = automaton_.symbols_[i];
      if (symbol >= 0 && set.contains(automaton_.starts_[i])) symbols.set(static_cast<size_t>(symbol));
    }
    return symbols;
  }

  Result<int32_t> state() {
    FULMAR_TRY(budget_.take(Budget::Item::states));
    states_.emplace_back();
    return static_cast<int32_t>(states_.size() - 1);
  }
  Result<int32_t> taking(const Symbols& symbols, int32_t next) {
    FULMAR_ASSIGN(const int32_t made, state());
    states_[static_cast<size_t>(made)].symbols = symbols;
    states_[static_cast<size_t>(made)].next = next;
    return made;
  }
  Result<int32_t> either(std::vector<int32_t> ways) {
    FULMAR_ASSIGN(const int32_t made, state());
    states_[static_cast<size_t>(made)].free = std::move(ways);
    return made;
  }

  // Returns the state that takes the pattern and then what `next` takes.
  Result<int32_t> place(const Pattern& pattern, int32_t next) {
    FULMAR_TRY(budget_.take(Budget::Item::work));
    switch (pattern.kind) {
      case Pattern::Kind::characters:
        return taking(symbols_of(pattern.set), next);
      case Pattern::Kind::begin:
        return taking(Symbols().set(kBegin), next);
      case Pattern::Kind::end:
        return taking(Symbols().set(kEnd), next);
      case Pattern::Kind::sequence:
        for (size_t i = pattern.parts.size(); i-- > 0;) {
          FULMAR_ASSIGN(next, place(pattern.parts[i], next));
        }
        return next;
      case Pattern::Kind::choice: {
        std::vector<int32_t> ways;
        for (const Pattern& part : pattern.parts) {
          FULMAR_ASSIGN(const int32_t way, place(part, next));
          ways.push_back(way);
        }
        return either(std::move(ways));
      }
      case Pattern::Kind::repeat:
        return repeat(pattern, next);
      case Pattern::Kind::ahead:
      case Pattern::Kind::not_ahead:
        return look(pattern, next);
    }
    return next;
  }

  Result<int32_t> repeat(const Pattern& pattern, int32_t next) {
    const Pattern& body = pattern.parts.front();
    int32_t at = next;
    if (pattern.most < 0) {
      FULMAR_ASSIGN(at, either({next}));
      ++endless_;
      FULMAR_ASSIGN(const int32_t once, place(body, at));
      --endless_;
      states_[static_cast<size_t>(at)].free.push_back(once);
    }
    // A body that takes nothing leads straight to what follows, however often.
    for (int64_t i = pattern.least; i < pattern.most; ++i) {
      FULMAR_ASSIGN(const int32_t once, place(body, at));
      if (once == at) break;
      FULMAR_ASSIGN(at, either({once, next}));
    }
    for (int64_t i = 0; i < pattern.least; ++i) {
      FULMAR_ASSIGN(const int32_t once, place(body, at));
      if (once == at) break;
      at = once;
    }
    return at;
  }

  // A lookahead under way: `rest` of the string after it and what it looks for, `sought`, walked side by
  // side.
  struct Side {
    States rest;
    States sought;
    auto operator<=>(const Side&) const = default;
  };

  bool holds_done(const States& states) const {
    return std::binary_search(states.begin(), states.end(), done_);
  }

  // Returns the state of the rest of the string, with the lookahead tried up to here; -1: it has failed.
  Result<int32_t> side_state(Side side, bool wanted) {
    if (holds_done(side.sought)) {
      if (!wanted) return -1;
      return either(std::move(side.rest));
    }
    if (side.sought.empty()) {
      if (wanted) return -1;
      return either(std::move(side.rest));
    }
    const auto known = sides_.find(side);
    if (known != sides_.end()) return known->second;
    FULMAR_ASSIGN(const int32_t made, either({}));
    sides_.emplace(side, made);
    open_sides_.emplace_back(std::move(side), made);
    return made;
  }

  Result<int32_t> look(const Pattern& pattern, int32_t next) {
    if (endless_ > 0) {
      return Error{ErrorKind::unsupported, "a lookahead within what repeats without end is not supported"};
    }
    const bool wanted = pattern.kind == Pattern::Kind::ahead;
    FULMAR_ASSIGN(const int32_t sought, place(pattern.parts.front(), done_));
    // Before the string's first character the begin may not have been taken yet.
    FULMAR_ASSIGN(const int32_t behind_begin, taking(Symbols().set(kBegin), sought));
    // Lookaheads of one kind that are nested are complete before this one is followed.
    sides_.clear();
    open_sides_.clear();
    FULMAR_ASSIGN(States rest, closure({next}));
    FULMAR_ASSIGN(States sought_first, closure({sought, behind_begin}));
    FULMAR_ASSIGN(const int32_t first, side_state({std::move(rest), std::move(sought_first)}, wanted));
    if (first < 0) return either({});
    while (!open_sides_.empty()) {
      const auto [side, made] = std::move(open_sides_.back());
      open_sides_.pop_back();
      FULMAR_TRY(follow_side(side, made, wanted));
    }
    return first;
  }

  Status follow_side(const Side& side, int32_t made, bool wanted) {
    std::map<int32_t, Symbols> ways;
    for (size_t symbol = 0; symbol < kMaxSymbols + 2; ++symbol) {
      if (!anything_[symbol]) continue;
      FULMAR_ASSIGN(States rest, step(side.rest, symbol));
      if (rest.empty()) continue;
      const bool is_end = symbol == kBegin || symbol == kEnd;
      FULMAR_ASSIGN(States sought, is_end ? and_behind(side.sought, symbol) : step(side.sought, symbol));
      // After the end nothing more is found.
      if (symbol == kEnd && !holds_done(sought)) sought.clear();
      FULMAR_ASSIGN(const int32_t to, side_state({std::move(rest), std::move(sought)}, wanted));
      if (to >= 0) ways[to].set(symbol);
    }
    for (const auto& [to, symbols] : ways) {
      FULMAR_ASSIGN(const int32_t way, taking(symbols, to));
      states_[static_cast<size_t>(made)].free.push_back(way);
    }
    return {};
  }

  // Returns the states reached without a symbol from which a symbol can be taken.
  Result<States> closure(States open) const {
    States all;
    FULMAR_TRY(budget_.take(Budget::Item::work, states_.size() / 64 + 1));
    std::vector<bool> met(states_.size());
    while (!open.empty()) {
      const int32_t at = open.back();
      open.pop_back();
      if (met[static_cast<size_t>(at)]) continue;
      met[static_cast<size_t>(at)] = true;
      const State& state = states_[static_cast<size_t>(at)];
      FULMAR_TRY(budget_.take(Budget::Item::work, state.free.size() + 1));
      if (state.next >= 0) all.push_back(at);
      open.insert(open.end(), state.free.begin(), state.free.end());
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  Result<States> step(const States& from, size_t symbol) {
    States to;
    for (const int32_t at : from) {
      const State& state = states_[static_cast<size_t>(at)];
      if (state.symbols[symbol]) to.push_back(state.next);
    }
    FULMAR_TRY(budget_.take(Budget::Item::work, from.size() / 8 + 1));
    if (to.empty()) return to;
    return closure(std::move(to));
  }

  // Returns the states after an end of the string, which takes no character and may be asked for several
  // times, as in `^(^a|b)`: those that `all` leads to, and `all` itself.
  Result<States> and_behind(States all, size_t end) {
    for (size_t before = 0; before != all.size();) {
      before = all.size();
      FULMAR_ASSIGN(const States more, step(all, end));
      States joined;
      std::set_union(all.begin(), all.end(), more.begin(), more.end(), std::back_inserter(joined));
      all = std::move(joined);
    }
    return all;
  }

  Status determine(int32_t start) {
    FULMAR_ASSIGN(const States outside, closure({start}));
    FULMAR_ASSIGN(States first, step(outside, kBegin));
    FULMAR_ASSIGN(first, and_behind(std::move(first), kBegin));
    std::map<States, int32_t> names = {{first, 0}};
    std::vector<States> all = {first};
    for (size_t i = 0; i < all.size(); ++i) {
      const States at = all[i];
      FULMAR_ASSIGN(const States finished, and_behind(at, kEnd));
      automaton_.accepting_.push_back(holds_done(finished));
      for (size_t symbol = 0; symbol < automaton_.width_; ++symbol) {
        FULMAR_ASSIGN(States next, step(at, symbol));
        if (next.empty()) {
          automaton_.next_.push_back(-1);
          continue;
        }
        if (holds_done(next) && all_found_ >= 0) {  // whatever follows, the pattern has been found
          automaton_.next_.push_back(all_found_);
          continue;
        }
        const bool done = holds_done(next);
        const auto [found, fresh] = names.emplace(std::move(next), static_cast<int32_t>(all.size()));
        if (fresh) {
          FULMAR_TRY(budget_.take(Budget::Item::states));
          all.push_back(found->first);
        }
        if (done) all_found_ = found->second;
        automaton_.next_.push_back(found->second);
      }
    }
    return {};
  }

  Budget& budget_;
  TextAutomaton automaton_;
  std::vector<State> states_;
  Symbols anything_;  // all symbols in use, the two ends among them
  int32_t done_ = -1;
  int32_t all_found_ = -1;
  int endless_ = 0;  // repetitions without end around the place
  std::map<Side, int32_t> sides_;
  std::vector<std::pair<Side, int32_t>> open_sides_;
};

Result<TextAutomaton> TextAutomaton::of_pattern(const Pattern& pattern, Budget& budget) {
  const size_t before = budget.remaining(Budget::Item::states);
  auto compiled = PatternCompiler(budget).compile(pattern);
  budget.free_states(before);  // those of the construction are gone
  if (compiled) FULMAR_TRY(budget.take(Budget::Item::states, compiled->states()));
  return compiled;
}

Result<TextAutomaton> TextAutomaton::of_whole_pattern(Pattern pattern, Budget& budget) {
  Pattern whole;
  whole.parts.emplace_back().kind = Pattern::Kind::begin;
  whole.parts.push_back(std::move(pattern));
  whole.parts.emplace_back().kind = Pattern::Kind::end;
  return of_pattern(whole, budget);
}

}  // namespace fulmar
