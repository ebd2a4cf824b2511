// What readers of grammars share: characters with their line, names of rules, counts, escapes.
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

  // A number of 0 to kMaxRepeat; nothing: none stands here.
  std::optional<int64_t> number();
  // {n} {n,} {,m} {n,m} behind the '{'. Errors: another form, bounds in the wrong order or beyond kMaxRepeat.
  Result<SyntaxNode> braces(SyntaxNode one);
  // The character of an escape behind the backslash.
  Result<uint32_t> escape();
  // "text" behind the first quote.
  Result<std::string> quoted();
  // [class] behind the '['.
  Result<CodePointSet> bracket();

  // The number of a rule, which may be met before it is defined.
  size_t rule(const std::string& name);
  // Errors: it is defined already.
  Status define(const std::string& name, SyntaxNode body, int line);
  bool defines(const std::string& name) const;
  // All rules. Errors: one that is used and not defined; no `root`.
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
