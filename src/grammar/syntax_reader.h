// What the readers of grammars share: characters with their line, names of rules, counts, escapes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/syntax.h"

namespace fulmar {

class SyntaxReader {
 public:
  explicit SyntaxReader(std::string_view text);

  bool at_end() const { return at_ >= points_.size(); }
  uint32_t peek(size_t ahead = 0) const { return at_ + ahead < points_.size() ? points_[at_ + ahead] : 0; }
  uint32_t next();
  bool take(uint32_t point);
  bool take(std::string_view ascii);
  int line() const { return line_; }
  struct Mark {
    size_t at;
    int line;
  };
  Mark mark() const { return {at_, line_}; }
  void go_back(const Mark& mark) { at_ = mark.at, line_ = mark.line; }
  Error error(std::string_view what) const;        // invalid, with the line
  Error unsupported(std::string_view what) const;  // with the line

  // Reads a number of 0 to kMaxRepeat; nothing: there is none here.
  std::optional<int64_t> number();
  // Reads {n} {n,} {,m} {n,m} after the '{'. Errors: another form, wrong order, bounds beyond kMaxRepeat.
  Result<SyntaxNode> braces(SyntaxNode one);
  // Reads an escape after the backslash; returns its character.
  Result<uint32_t> escape();
  // Reads "text" after the first quote.
  Result<std::string> quoted();
  // Reads [class] after the '['.
  Result<CodePointSet> bracket();

  // Returns the number of a rule, which may be used before it is defined.
  size_t rule(const std::string& name);
  // Defines a rule. Error: it is defined already.
  Status define(const std::string& name, SyntaxNode body, int line);
  bool defines(const std::string& name) const;
  // Returns all rules. Errors: one is used and not defined; there is no `root`.
  Result<Syntax> finish(const std::string& root);

 private:
  Result<uint32_t> hexadecimal(int digits);

  std::vector<uint32_t> points_;
  size_t at_ = 0;
  int line_ = 1;
  std::map<std::string, size_t> numbers_;
  std::vector<SyntaxRule> rules_;
  std::vector<bool> defined_;
};

}  // namespace fulmar
