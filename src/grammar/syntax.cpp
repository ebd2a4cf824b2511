// Turns trees into places. A rule's place takes only texts that are not empty, so that loops always take
// something; where a rule may be empty, each call has a way around it.
#include "grammar/syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "grammar/text_automaton.h"

namespace fulmar {
namespace {

using Kind = SyntaxNode::Kind;

class SyntaxCompiler {
 public:
  SyntaxCompiler(Syntax syntax, Grammar& grammar, Budget& budget)
      : syntax_(std::move(syntax)), grammar_(grammar), budget_(budget) {}

  Result<Place> compile() {
    for (size_t i = 0; i < syntax_.rules.size(); ++i) unfold_left_recursion(i);
    FULMAR_TRY(find_empty());
    FULMAR_TRY(check_beginnings());
    for (size_t i = 0; i < syntax_.rules.size(); ++i) rules_.push_back(grammar_.new_rule());
    for (size_t i = 0; i < syntax_.rules.size(); ++i) {
      FULMAR_ASSIGN(const Place body, some(syntax_.rules[i].body, grammar_.end()));
      grammar_.begin(rules_[i], body);
    }
    return any(SyntaxNode::of_rule(syntax_.root), grammar_.end());
  }

 private:
  // Replaces a: a x | a y | b  by  a: b (x | y)*.
  void unfold_left_recursion(size_t rule) {
    SyntaxNode& body = syntax_.rules[rule].body;
    std::vector<SyntaxNode> ways = body.kind == Kind::choice ? body.parts : std::vector<SyntaxNode>{body};
    SyntaxNode first{.kind = Kind::choice};
    SyntaxNode further{.kind = Kind::choice};
    for (SyntaxNode& way : ways) {
      const bool is_itself = way.kind == Kind::rule && way.rule == rule;
      if (is_itself) continue;  // says nothing
      const bool recurs = way.kind == Kind::sequence && !way.parts.empty() &&
                          way.parts.front().kind == Kind::rule && way.parts.front().rule == rule;
      if (recurs) way.parts.erase(way.parts.begin());
      (recurs ? further : first).parts.push_back(std::move(way));
    }
    if (further.parts.empty() && first.parts.size() == ways.size()) return;
    body = SyntaxNode{.kind = Kind::sequence};
    body.parts.push_back(std::move(first));
    if (!further.parts.empty()) body.parts.push_back(SyntaxNode::repeated(std::move(further), 0, -1));
  }

  bool may_be_empty(const SyntaxNode& node) const {
    switch (node.kind) {
      case Kind::text:
        return node.text.empty();
      case Kind::characters:
        return false;
      case Kind::pattern:
        return patterns_.at(node.pattern.get()).takes("");
      case Kind::rule:
        return empty_[node.rule];
      case Kind::sequence:
        for (const SyntaxNode& part : node.parts) {
          if (!may_be_empty(part)) return false;
        }
        return true;
      case Kind::choice:
        for (const SyntaxNode& part : node.parts) {
          if (may_be_empty(part)) return true;
        }
        return false;
      case Kind::repeat:
        return node.least == 0 || may_be_empty(node.parts.front());
    }
    return false;
  }

  // Pays for the walk of a whole tree.
  Status walk(const SyntaxNode& node) {
    FULMAR_TRY(budget_.take(Budget::Item::work, 1 + node.text.size()));
    if (node.kind == Kind::pattern && !patterns_.contains(node.pattern.get())) {
      FULMAR_ASSIGN(TextAutomaton texts, TextAutomaton::of_whole_pattern(*node.pattern, budget_));
      patterns_.emplace(node.pattern.get(), std::move(texts));
    }
    for (const SyntaxNode& part : node.parts) FULMAR_TRY(walk(part));
    return {};
  }

  // Finds the rules that may be empty, repeating until nothing changes.
  Status find_empty() {
    empty_.assign(syntax_.rules.size(), false);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < syntax_.rules.size(); ++i) {
        FULMAR_TRY(walk(syntax_.rules[i].body));
        if (empty_[i] || !may_be_empty(syntax_.rules[i].body)) continue;
        changed = empty_[i] = true;
      }
    }
    return {};
  }

  // Adds the rules that a text of the node may begin with.
  void add_beginnings(const SyntaxNode& node, std::vector<size_t>& rules) const {
    if (node.kind == Kind::rule) rules.push_back(node.rule);
    for (const SyntaxNode& part : node.parts) {
      add_beginnings(part, rules);
      if (node.kind == Kind::sequence && !may_be_empty(part)) break;
    }
  }

  // Checks that no rule begins with itself: depth first over what each rule may begin with.
  Status check_beginnings() const {
    enum class Mark : uint8_t { fresh, open, done };
    struct Step {
      size_t rule;
      std::vector<size_t> next;
    };
    std::vector<Mark> marks(syntax_.rules.size(), Mark::fresh);
    const auto step_of = [&](size_t rule) {
      marks[rule] = Mark::open;
      Step step{rule, {}};
      add_beginnings(syntax_.rules[rule].body, step.next);
      return step;
    };
    for (size_t first = 0; first < marks.size(); ++first) {
      if (marks[first] != Mark::fresh) continue;
      std::vector<Step> path = {step_of(first)};
      while (!path.empty()) {
        if (path.back().next.empty()) {
          marks[path.back().rule] = Mark::done;
          path.pop_back();
          continue;
        }
        const size_t next = path.back().next.back();
        path.back().next.pop_back();
        FULMAR_TRY(budget_.take(Budget::Item::work));
        if (marks[next] == Mark::open) {
          return Error{ErrorKind::unsupported,
                       fmt::format("rule '{}' (line {}) begins with itself through others (left recursion); "
                                   "wanted at most a direct one, as in 'a: a \"x\" | \"y\"'",
                                   syntax_.rules[next].name, syntax_.rules[next].line)};
        }
        if (marks[next] == Mark::fresh) path.push_back(step_of(next));
      }
    }
    return {};
  }

  // Takes a text of the node, perhaps the empty one, then `next`.
  Result<Place> any(const SyntaxNode& node, Place next) {
    FULMAR_ASSIGN(const Place place, some(node, next));
    return may_be_empty(node) ? grammar_.branch(place, next) : place;
  }

  // Takes a text of the node that is not empty, then `next`.
  Result<Place> some(const SyntaxNode& node, Place next) {
    FULMAR_TRY(budget_.take(Budget::Item::work));
    switch (node.kind) {
      case Kind::text:
        return node.text.empty() ? grammar_.nothing() : grammar_.text(node.text, next);
      case Kind::characters:
        return character_of(grammar_, node.set, CharacterForm::plain, next);
      case Kind::pattern:
        return some_of_pattern(node, next);
      case Kind::rule:
        return grammar_.call(rules_[node.rule], next);
      case Kind::sequence:
        return some_of_sequence(node, next);
      case Kind::choice: {
        std::vector<Place> ways;
        for (const SyntaxNode& part : node.parts) {
          FULMAR_ASSIGN(const Place way, some(part, next));
          ways.push_back(way);
        }
        return grammar_.branch(ways);
      }
      case Kind::repeat:
        return some_of_repeat(node, next);
    }
    return next;
  }

  // Takes a sequence that is not empty; only parts that may be empty precede its first non-empty one.
  Result<Place> some_of_sequence(const SyntaxNode& node, Place next) {
    std::vector<Place> begun(node.parts.size());  // by the first part that is not empty
    Place rest = next;
    size_t past = 0;  // the first part that may not be empty
    while (past < node.parts.size() && may_be_empty(node.parts[past])) ++past;
    for (size_t i = node.parts.size(); i-- > 0;) {
      FULMAR_ASSIGN(begun[i], some(node.parts[i], rest));
      rest = may_be_empty(node.parts[i]) ? grammar_.branch(begun[i], rest) : begun[i];
    }
    begun.resize(std::min(past + 1, begun.size()));
    const std::vector<Place>& ways = begun;
    return grammar_.branch(ways);
  }

  Result<Place> some_of_repeat(const SyntaxNode& node, Place next) {
    const SyntaxNode& part = node.parts.front();
    if (node.most == 0) return grammar_.nothing();
    FULMAR_ASSIGN(const Place once, some(part, grammar_.end()));
    const auto [known, fresh] = repeated_.emplace(once, -1);
    if (fresh) known->second = grammar_.rule(once);
    const int64_t least = may_be_empty(part) ? 1 : std::max<int64_t>(1, node.least);
    return grammar_.repeat(known->second, least, node.most, next);
  }

  Result<Place> some_of_pattern(const SyntaxNode& node, Place next) {
    const TextAutomaton& all = patterns_.at(node.pattern.get());
    FULMAR_ASSIGN(const TextAutomaton texts,
                  all.empty() ? Result<TextAutomaton>(all) : all.of_length(1, -1, budget_));
    return texts.empty() ? grammar_.nothing() : texts.plain(grammar_, next);
  }

  Syntax syntax_;
  Grammar& grammar_;
  Budget& budget_;
  std::vector<bool> empty_;  // by rule: it may be
  std::vector<Rule> rules_;  // by rule: its texts that are not empty
  std::unordered_map<Place, Rule> repeated_;
  std::unordered_map<const Pattern*, TextAutomaton> patterns_;
};

}  // namespace

SyntaxNode SyntaxNode::of_text(std::string text) {
  SyntaxNode node{.kind = Kind::text};
  node.text = std::move(text);
  return node;
}

SyntaxNode SyntaxNode::of_set(CodePointSet set) {
  SyntaxNode node{.kind = Kind::characters};
  node.set = std::move(set);
  return node;
}

SyntaxNode SyntaxNode::of_rule(size_t rule) {
  SyntaxNode node{.kind = Kind::rule};
  node.rule = rule;
  return node;
}

SyntaxNode SyntaxNode::repeated(SyntaxNode part, int64_t least, int64_t most) {
  SyntaxNode node{.kind = Kind::repeat};
  node.parts.push_back(std::move(part));
  node.least = least;
  node.most = most;
  return node;
}

Result<Place> syntax_place(Syntax syntax, Grammar& grammar, Budget& budget) {
  return SyntaxCompiler(std::move(syntax), grammar, budget).compile();
}

}  // namespace fulmar
