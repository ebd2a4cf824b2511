// Recursive descent over a GBNF text.
#include "grammar/gbnf.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "grammar/syntax_reader.h"

namespace fulmar {
namespace {

using Kind = SyntaxNode::Kind;

bool is_word(uint32_t point) {
  const uint32_t letter = point | 0x20u;
  return (letter >= 'a' && letter <= 'z') || (point >= '0' && point <= '9') || point == '-' || point == '_';
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : reader_(text) {}

  Result<Syntax> parse() {
    for (skip(Lines::any); !reader_.at_end(); skip(Lines::any)) {
      const int line = reader_.line();
      const std::string name = word();
      if (name.empty()) return reader_.error("wanted the name of a rule");
      skip(Lines::one);
      if (!reader_.take("::=")) return reader_.error(fmt::format("wanted '::=' behind '{}'", name));
      skip(Lines::any);
      FULMAR_ASSIGN(SyntaxNode body, choice(0));
      if (!reader_.at_end() && reader_.peek() != '\n' && reader_.peek() != '\r') {
        return reader_.error("wanted the end of the line");
      }
      FULMAR_TRY(reader_.define(name, std::move(body), line));
    }
    return reader_.finish("root");
  }

 private:
  enum class Lines : uint8_t { one, any };

  void skip(Lines lines) {
    while (!reader_.at_end()) {
      const uint32_t point = reader_.peek();
      const bool blank = point == ' ' || point == '\t';
      const bool line_end = point == '\n' || point == '\r';
      if (point == '#') {
        while (!reader_.at_end() && reader_.peek() != '\n') reader_.next();
      } else if (blank || (line_end && lines == Lines::any)) {
        reader_.next();
      } else {
        return;
      }
    }
  }

  std::string word() {
    std::string name;
    while (is_word(reader_.peek())) name += static_cast<char>(reader_.next());
    return name;
  }

  // Parses alternatives; inside groups the end of a line counts as white space.
  Result<SyntaxNode> choice(int depth) {
    if (depth > kMaxSyntaxDepth) {
      return reader_.unsupported(fmt::format("nesting of more than {} groups", kMaxSyntaxDepth));
    }
    SyntaxNode all{.kind = Kind::choice};
    do {
      skip(Lines::any);
      FULMAR_ASSIGN(SyntaxNode one, sequence(depth));
      all.parts.push_back(std::move(one));
    } while (reader_.take('|'));
    if (all.parts.size() > 1) return all;
    return std::move(all.parts.front());
  }

  Result<SyntaxNode> sequence(int depth) {
    SyntaxNode all{.kind = Kind::sequence};
    const Lines lines = depth > 0 ? Lines::any : Lines::one;
    for (skip(lines); !reader_.at_end(); skip(lines)) {
      const uint32_t point = reader_.peek();
      if (point == '|' || point == ')' || point == '\n' || point == '\r') break;
      FULMAR_ASSIGN(SyntaxNode one, item(depth));
      FULMAR_ASSIGN(one, repeated(std::move(one), lines));
      all.parts.push_back(std::move(one));
    }
    return all;
  }

  Result<SyntaxNode> item(int depth) {
    if (reader_.take('"')) {
      FULMAR_ASSIGN(std::string text, reader_.quoted());
      return SyntaxNode::of_text(std::move(text));
    }
    if (reader_.take('[')) {
      FULMAR_ASSIGN(CodePointSet set, reader_.bracket());
      return SyntaxNode::of_set(std::move(set));
    }
    if (reader_.take('.')) return SyntaxNode::of_set(CodePointSet::all());
    if (reader_.take('(')) {
      FULMAR_ASSIGN(SyntaxNode inner, choice(depth + 1));
      if (!reader_.take(')')) return reader_.error("a '(' that is never closed");
      return inner;
    }
    if (reader_.peek() == '<' || reader_.peek() == '!')
      return reader_.unsupported("a token by its name or id");
    const std::string name = word();
    if (name.empty()) return reader_.error("wanted a text, a class, a group or the name of a rule");
    return SyntaxNode::of_rule(reader_.rule(name));
  }

  Result<SyntaxNode> repeated(SyntaxNode one, Lines lines) {
    for (int times = 0;; ++times) {
      if (times > kMaxSyntaxDepth) return reader_.error("too many repetitions behind one another");
      skip(lines);
      if (reader_.take('*')) {
        one = SyntaxNode::repeated(std::move(one), 0, -1);
      } else if (reader_.take('+')) {
        one = SyntaxNode::repeated(std::move(one), 1, -1);
      } else if (reader_.take('?')) {
        one = SyntaxNode::repeated(std::move(one), 0, 1);
      } else if (reader_.take('{')) {
        FULMAR_ASSIGN(one, reader_.braces(std::move(one)));
      } else {
        return one;
      }
    }
  }

  SyntaxReader reader_;
};

}  // namespace

Result<Syntax> parse_gbnf(std::string_view text) {
  if (!is_utf8(text)) return Error{ErrorKind::invalid, "the grammar is no UTF-8"};
  return GbnfParser(text).parse();
}

}  // namespace fulmar
