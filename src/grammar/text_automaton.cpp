// Products, trimming and the way into a grammar.
#include "grammar/text_automaton.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/utf8.h"

namespace fulmar {

TextAutomaton TextAutomaton::any() {
  TextAutomaton automaton;
  automaton.starts_ = {0, kFirstSurrogate, kLastSurrogate + 1};
  automaton.symbols_ = {0, -1, 0};
  automaton.width_ = 1;
  automaton.next_ = {0};
  automaton.accepting_ = {true};
  return automaton;
}

int32_t TextAutomaton::symbol_of(uint32_t point) const {
  const auto behind = std::upper_bound(starts_.begin(), starts_.end(), point);
  return symbols_[static_cast<size_t>(behind - starts_.begin()) - 1];
}

CodePointSet TextAutomaton::characters(int32_t symbol) const {
  CodePointSet set;
  for (size_t i = 0; i < starts_.size(); ++i) {
    if (symbols_[i] != symbol) continue;
    set.add(starts_[i], i + 1 < starts_.size() ? starts_[i + 1] - 1 : kLastCodePoint);
  }
  return set;
}

std::vector<int32_t> TextAutomaton::steps_to(const std::vector<bool>& goals,
                                             const std::vector<bool>& symbols) const {
  std::vector<std::vector<int32_t>> into(states());
  for (size_t i = 0; i < next_.size(); ++i) {
    if (next_[i] < 0 || !symbols[i % width_]) continue;
    into[static_cast<size_t>(next_[i])].push_back(static_cast<int32_t>(i / width_));
  }
  std::vector<int32_t> steps(states(), -1);
  std::vector<int32_t> met;  // the nearest first
  for (size_t i = 0; i < states(); ++i) {
    if (!goals[i]) continue;
    steps[i] = 0;
    met.push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < met.size(); ++i) {
    const auto state = static_cast<size_t>(met[i]);
    for (const int32_t from : into[state]) {
      if (steps[static_cast<size_t>(from)] >= 0) continue;
      steps[static_cast<size_t>(from)] = steps[state] + 1;
      met.push_back(from);
    }
  }
  return steps;
}

std::vector<bool> TextAutomaton::free_states() const {
  std::vector<bool> plain(width_);
  for (size_t i = 0; i < starts_.size(); ++i) {
    const uint32_t last = i + 1 < starts_.size() ? starts_[i + 1] - 1 : kLastCodePoint;
    uint32_t point = starts_[i];
    while (point <= last && !is_plain(point)) ++point;
    if (point > last) continue;
    if (symbols_[i] < 0) return std::vector<bool>(states(), false);
    plain[static_cast<size_t>(symbols_[i])] = true;
  }
  std::vector<bool> stuck(states());  // some plain character does not go on
  for (size_t i = 0; i < next_.size(); ++i) {
    if (next_[i] < 0 && plain[i % width_]) stuck[i / width_] = true;
  }
  std::vector<bool> free;
  for (const int32_t steps : steps_to(stuck, plain)) {
    free.push_back(steps < 0 || steps >= Grammar::kFreeCharacters);
  }
  return free;
}

void TextAutomaton::drop_useless() {
  const size_t count = states();
  const std::vector<int32_t> useful = steps_to_end();
  std::vector<int32_t> renamed(count, -1);
  std::vector<bool> accepting;
  std::vector<int32_t> next;
  if (useful[0] >= 0) {
    for (size_t i = 0; i < count; ++i) {
      if (useful[i] < 0) continue;
      renamed[i] = static_cast<int32_t>(accepting.size());
      accepting.push_back(accepting_[i]);
    }
    for (size_t i = 0; i < next_.size(); ++i) {
      if (useful[i / width_] < 0) continue;
      next.push_back(next_[i] < 0 ? -1 : renamed[static_cast<size_t>(next_[i])]);
    }
  }
  accepting_ = std::move(accepting);
  next_ = std::move(next);
}

// The product of two automata, pair by pair of states.
class TextAutomaton::Pairs {
 public:
  Pairs(const TextAutomaton& one, const TextAutomaton& other, bool refuse_other, Budget& budget)
      : one_(one), other_(other), refuse_other_(refuse_other), budget_(budget) {}

  Result<TextAutomaton> product() {
    TextAutomaton all;
    if (one_.empty() || (other_.empty() && !refuse_other_)) return all;
    if (other_.empty()) return one_;
    FULMAR_TRY(budget_.take(Budget::Item::work, one_.starts_.size() + other_.starts_.size()));
    share_symbols(all);
    FULMAR_TRY(state_of({0, 0}));
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const Pair at = pairs_[i];
      FULMAR_TRY(budget_.take(Budget::Item::work, shared_.size()));
      all.accepting_.push_back(one_.accepting_[static_cast<size_t>(at.first)] && fits(at.second));
      for (const auto& [symbol, other_symbol] : shared_) {
        const int32_t after = one_.after(at.first, symbol);
        const int32_t other_after = at.second < 0 ? -1 : other_.after(at.second, other_symbol);
        if (after < 0 || (other_after < 0 && !refuse_other_)) {
          all.next_.push_back(-1);
          continue;
        }
        FULMAR_ASSIGN(const int32_t state, state_of({after, other_after}));
        all.next_.push_back(state);
      }
    }
    all.drop_useless();
    return all;
  }

 private:
  using Pair = std::pair<int32_t, int32_t>;

  bool fits(int32_t state) const {
    const bool taken = state >= 0 && other_.accepting_[static_cast<size_t>(state)];
    return taken != refuse_other_;
  }

  void share_symbols(TextAutomaton& all) {
    std::map<Pair, int32_t> names;
    std::merge(one_.starts_.begin(), one_.starts_.end(), other_.starts_.begin(), other_.starts_.end(),
               std::back_inserter(all.starts_));
    all.starts_.erase(std::unique(all.starts_.begin(), all.starts_.end()), all.starts_.end());
    for (const uint32_t start : all.starts_) {
      const Pair pair{one_.symbol_of(start), other_.symbol_of(start)};
      if (pair.first < 0 || pair.second < 0) {
        all.symbols_.push_back(-1);
        continue;
      }
      const auto [found, fresh] = names.emplace(pair, static_cast<int32_t>(shared_.size()));
      if (fresh) shared_.push_back(pair);
      all.symbols_.push_back(found->second);
    }
    all.width_ = shared_.size();
  }

  Result<int32_t> state_of(Pair pair) {
    const auto [found, fresh] = names_.emplace(pair, static_cast<int32_t>(pairs_.size()));
    if (fresh) {
      FULMAR_TRY(budget_.take(Budget::Item::states));
      pairs_.push_back(pair);
    }
    return found->second;
  }

  const TextAutomaton& one_;
  const TextAutomaton& other_;
  const bool refuse_other_;
  Budget& budget_;
  std::vector<Pair> shared_;  // what each symbol of the product is in the two
  std::vector<Pair> pairs_;
  std::map<Pair, int32_t> names_;
};

Result<TextAutomaton> TextAutomaton::both(const TextAutomaton& other, Budget& budget) const {
  return Pairs(*this, other, false, budget).product();
}

Result<TextAutomaton> TextAutomaton::without(const TextAutomaton& other, Budget& budget) const {
  return Pairs(*this, other, true, budget).product();
}

Result<TextAutomaton> TextAutomaton::of_length(int64_t least, int64_t most, Budget& budget) const {
  // Counts characters up to the bound that matters last; beyond it all lengths are alike.
  TextAutomaton counter = any();
  const auto last = static_cast<size_t>(most < 0 ? least : most);
  FULMAR_TRY(budget.take(Budget::Item::work, last));
  counter.accepting_.assign(last + 1, true);
  counter.next_.resize(last + 1);
  for (size_t i = 0; i <= last; ++i) {
    counter.accepting_[i] = static_cast<int64_t>(i) >= least;
    counter.next_[i] = i < last ? static_cast<int32_t>(i) + 1 : most < 0 ? static_cast<int32_t>(i) : -1;
  }
  return both(counter, budget);
}

bool TextAutomaton::takes(std::string_view utf8) const {
  if (empty() || !is_utf8(utf8)) return false;
  int32_t state = 0;
  for (const uint32_t point : code_points_of(utf8)) {
    const int32_t symbol = symbol_of(point);
    state = symbol < 0 ? -1 : after(state, symbol);
    if (state < 0) return false;
  }
  return accepting_[static_cast<size_t>(state)];
}

// Searches depth first: a state that is met again while open is on a cycle, and every state is useful.
std::optional<int64_t> TextAutomaton::longest() const {
  constexpr int64_t kOpen = -1;
  constexpr int64_t kFresh = -2;
  std::vector<int64_t> lengths(states(), kFresh);
  std::vector<int32_t> path = {0};
  while (!path.empty()) {
    const int32_t state = path.back();
    int64_t& length = lengths[static_cast<size_t>(state)];
    const bool first = length == kFresh;
    if (first) length = kOpen;
    int64_t longest = 0;
    for (size_t i = 0; i < width_; ++i) {
      const int32_t to = after(state, static_cast<int32_t>(i));
      if (to < 0) continue;
      const int64_t known = lengths[static_cast<size_t>(to)];
      if (known == kOpen) return std::nullopt;
      if (known == kFresh) path.push_back(to);
      longest = std::max(longest, known + 1);
    }
    if (path.back() != state) continue;
    length = longest;
    path.pop_back();
    while (!path.empty() && lengths[static_cast<size_t>(path.back())] >= 0) path.pop_back();
  }
  return lengths[0];
}

Rule TextAutomaton::characters_of(Grammar& grammar, CharacterForm form, Counting counting,
                                  Place close) const {
  const bool counted = counting == Counting::characters;
  std::vector<Rule> rules;
  for (size_t i = 0; i < states(); ++i) rules.push_back(grammar.new_rule());
  std::vector<CodePointSet> sets;
  for (size_t i = 0; i < width_; ++i) sets.push_back(characters(static_cast<int32_t>(i)));
  const Place end = grammar.end();
  const std::vector<bool> free = free_states();
  const std::vector<int32_t> left = steps_to_end();
  const Place is_free = grammar.free(counted ? *std::max_element(left.begin(), left.end()) : -1);
  for (size_t i = 0; i < states() && !grammar.full(); ++i) {
    std::map<int32_t, CodePointSet> ways;  // by the state that follows
    for (size_t j = 0; j < width_; ++j) {
      const int32_t to = after(static_cast<int32_t>(i), static_cast<int32_t>(j));
      if (to >= 0) ways[to].add(sets[j]);
    }
    std::vector<Place> choices;
    if (accepting_[i]) choices.push_back(counted ? grammar.enough(close) : close);
    for (const auto& [to, set] : ways) {
      const Place character =
          character_of(grammar, set, form, grammar.call(rules[static_cast<size_t>(to)], end));
      choices.push_back(counted ? grammar.tick(to, character) : character);
    }
    if (free[i]) choices.push_back(is_free);
    grammar.begin(rules[i], grammar.branch(choices));
  }
  return rules.front();
}

Place TextAutomaton::quoted(Grammar& grammar, Place next) const {
  const Place close = grammar.text("\"", grammar.end());
  const Rule rest = characters_of(grammar, CharacterForm::in_json, Counting::none, close);
  return grammar.text("\"", grammar.call(rest, next));
}

Result<std::optional<Place>> TextAutomaton::quoted_within(Grammar& grammar, int64_t least, int64_t most,
                                                          Budget& budget, Place next) const {
  const auto longest = most < 0 ? std::nullopt : this->longest();
  if (longest && *longest <= most) most = -1;
  if (least <= 0 && most < 0) return std::optional(quoted(grammar, next));
  FULMAR_ASSIGN(auto lengths, Lengths::of(next_, width_, accepting_, most, budget));
  if (!lengths->any(0, least, most)) return std::optional<Place>();
  const Place close = grammar.text("\"", grammar.end());
  const Rule rest = characters_of(grammar, CharacterForm::in_json, Counting::characters, close);
  return std::optional(grammar.text("\"", grammar.count({rest, least, most, std::move(lengths)}, next)));
}

Place TextAutomaton::plain(Grammar& grammar, Place next) const {
  const Rule all = characters_of(grammar, CharacterForm::plain, Counting::none, grammar.end());
  return grammar.call(all, next);
}

}  // namespace fulmar
