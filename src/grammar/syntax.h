// A context-free grammar over characters with a tree for each rule, the result of parsing GBNF and Lark.
// Knows neither of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/budget.h"
#include "grammar/code_points.h"
#include "grammar/grammar.h"
#include "grammar/pattern.h"

namespace fulmar {

struct SyntaxNode {
  enum class Kind : uint8_t {
    text,        // `text`, which is UTF-8; empty: the empty text
    characters,  // one of `set`
    pattern,     // what `pattern` matches as a whole
    rule,        // the rule of number `rule`
    sequence,    // all parts, one after the other
    choice,      // one of the parts
    repeat,      // the only part, `least` to `most` times; most < 0: without end
  };
  Kind kind = Kind::sequence;
  std::string text;
  CodePointSet set;
  std::shared_ptr<const Pattern> pattern;
  size_t rule = 0;
  std::vector<SyntaxNode> parts;
  int64_t least = 0;
  int64_t most = 0;

  static SyntaxNode of_text(std::string text);
  static SyntaxNode of_set(CodePointSet set);
  static SyntaxNode of_rule(size_t rule);
  static SyntaxNode repeated(SyntaxNode part, int64_t least, int64_t most);
};

struct SyntaxRule {
  std::string name;
  SyntaxNode body;
  int line = 0;
};

struct Syntax {
  std::vector<SyntaxRule> rules;
  size_t root = 0;
};

// How deep groups may nest.
inline constexpr int kMaxSyntaxDepth = 64;

// Takes a text of the grammar's root, then ends. A rule that begins with itself is accepted where it does so
// directly (a: a "x" | "y"). Errors: unsupported, naming a rule that begins with itself through others, or a
// pattern; those of the budget.
Result<Place> syntax_place(Syntax syntax, Grammar& grammar, Budget& budget);

}  // namespace fulmar
