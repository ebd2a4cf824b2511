// Recursive descent over a Lark text. What %ignore names may follow every text, terminal and pattern of a
// rule.
#include "grammar/lark.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/utf8.h"
#include "grammar/pattern.h"
#include "grammar/syntax_reader.h"

namespace fulmar {
namespace {

using Kind = SyntaxNode::Kind;

constexpr std::string_view kIgnored = " ignored";  // a rule's name that no text can write
constexpr int64_t kMostIgnored = 64;               // so that a model cannot lose itself in blanks

// The terminals of Lark's module `common`, as patterns.
constexpr std::pair<std::string_view, std::string_view> kCommon[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
    {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"SIGNED_FLOAT", "[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
    {"NUMBER", "(?:[0-9]+\\.[0-9]*|\\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"SIGNED_NUMBER", "[+-]?(?:[0-9]+\\.[0-9]*|\\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[a-zA-Z]"},
    {"WORD", "[a-zA-Z]+"},
    {"CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(?:\\r?\\n)+"},
};

bool is_lower(uint32_t point) { return point >= 'a' && point <= 'z'; }
bool is_upper(uint32_t point) { return point >= 'A' && point <= 'Z'; }
bool is_word(uint32_t point) {
  return is_lower(point) || is_upper(point) || (point >= '0' && point <= '9') || point == '_';
}

bool is_terminal(std::string_view name) {
  const size_t letter = name.find_first_not_of('_');
  return letter != std::string_view::npos && is_upper(static_cast<unsigned char>(name[letter]));
}

SyntaxNode in_either_case(std::string_view text) {
  SyntaxNode all{.kind = Kind::sequence};
  for (const uint32_t point : code_points_of(text)) {
    CodePointSet set = CodePointSet::of(point, point);
    const uint32_t other = point ^ 0x20u;
    if (is_lower(point | 0x20u) && point < 0x80) set.add(other, other);
    all.parts.push_back(SyntaxNode::of_set(std::move(set)));
  }
  return all;
}

class LarkParser {
 public:
  explicit LarkParser(std::string_view text) : reader_(text) {}

  Result<Syntax> parse() {
    for (skip_lines(); !reader_.at_end(); skip_lines()) {
      FULMAR_TRY(reader_.peek() == '%' ? directive() : definition());
    }
    const size_t ignored = reader_.rule(std::string(kIgnored));
    FULMAR_TRY(reader_.define(std::string(kIgnored), ignored_rule(), 0));
    FULMAR_ASSIGN(Syntax syntax, reader_.finish("start"));
    if (ignored_.empty()) return syntax;
    // Before the first text, too.
    SyntaxNode whole{.kind = Kind::sequence};
    whole.parts.push_back(SyntaxNode::of_rule(ignored));
    whole.parts.push_back(SyntaxNode::of_rule(syntax.root));
    syntax.root = syntax.rules.size();
    syntax.rules.push_back({"start with what is ignored", std::move(whole), 0});
    return syntax;
  }

 private:
  SyntaxNode ignored_rule() {
    SyntaxNode choice{.kind = Kind::choice, .parts = ignored_};
    return ignored_.empty() ? SyntaxNode{.kind = Kind::sequence}
                            : SyntaxNode::repeated(std::move(choice), 0, kMostIgnored);
  }

  void skip_blanks() {
    while (reader_.peek() == ' ' || reader_.peek() == '\t') reader_.next();
    const bool comment = reader_.peek() == '#' || (reader_.peek() == '/' && reader_.peek(1) == '/');
    while (comment && !reader_.at_end() && reader_.peek() != '\n') reader_.next();
  }
  bool at_line_end() const { return reader_.peek() == '\n' || reader_.peek() == '\r'; }
  void skip_lines() {
    for (skip_blanks(); !reader_.at_end() && at_line_end(); skip_blanks()) reader_.next();
  }

  std::string word() {
    std::string name;
    while (is_word(reader_.peek())) name += static_cast<char>(reader_.next());
    return name;
  }

  Status end_of_line() {
    skip_blanks();
    if (reader_.at_end() || at_line_end()) return {};
    return reader_.error("wanted the end of the line");
  }

  Status directive() {
    if (reader_.take("%ignore")) {
      in_terminal_ = true;
      FULMAR_ASSIGN(SyntaxNode ignored, choice(0));
      ignored_.push_back(std::move(ignored));
      return end_of_line();
    }
    if (reader_.take("%import")) return import();
    return reader_.unsupported("a directive other than %ignore and %import");
  }

  // Reads %import common.NAME, %import common.NAME -> OTHER, or %import common (NAME, NAME).
  Status import() {
    skip_blanks();
    if (!reader_.take("common")) return reader_.unsupported("%import of another module than 'common'");
    skip_blanks();
    const bool list = !reader_.take('.');
    if (list && !reader_.take('(')) return reader_.error("wanted 'common.NAME' or 'common (NAME, ...)'");
    do {
      skip_blanks();
      const std::string name = word();
      const auto* found = std::find_if(std::begin(kCommon), std::end(kCommon),
                                       [&](const auto& one) { return one.first == name; });
      if (found == std::end(kCommon))
        return reader_.unsupported(fmt::format("the terminal 'common.{}'", name));
      skip_blanks();
      std::string as = name;
      if (!list && reader_.take("->")) {
        skip_blanks();
        as = word();
      }
      FULMAR_ASSIGN(SyntaxNode node, pattern_node(found->second));
      FULMAR_TRY(reader_.define(as, std::move(node), reader_.line()));
      skip_blanks();
    } while (list && reader_.take(','));
    if (list && !reader_.take(')')) return reader_.error("a '(' that is never closed");
    return end_of_line();
  }

  Status definition() {
    const int line = reader_.line();
    while (reader_.take('?') || reader_.take('!')) {
    }
    const std::string name = word();
    if (name.empty()) return reader_.error("wanted the name of a rule, or a directive");
    if (reader_.peek() == '{') return reader_.unsupported("a template");
    if (reader_.take('.')) reader_.number();  // a priority
    skip_blanks();
    if (!reader_.take(':')) return reader_.error(fmt::format("wanted ':' behind '{}'", name));
    in_terminal_ = is_terminal(name);
    FULMAR_ASSIGN(SyntaxNode body, choice(0));
    FULMAR_TRY(end_of_line());
    return reader_.define(name, std::move(body), line);
  }

  // Takes a '|', perhaps on a later line; returns whether there was one.
  bool takes_bar(int depth) {
    skip_blanks();
    const SyntaxReader::Mark before = reader_.mark();
    skip_lines();
    if (reader_.take('|')) return true;
    if (depth == 0) reader_.go_back(before);
    return false;
  }

  Result<SyntaxNode> choice(int depth) {
    if (depth > kMaxSyntaxDepth) {
      return reader_.unsupported(fmt::format("nesting of more than {} groups", kMaxSyntaxDepth));
    }
    SyntaxNode all{.kind = Kind::choice};
    do {
      FULMAR_ASSIGN(SyntaxNode one, sequence(depth));
      all.parts.push_back(std::move(one));
    } while (takes_bar(depth));
    if (all.parts.size() > 1) return all;
    return std::move(all.parts.front());
  }

  Result<SyntaxNode> sequence(int depth) {
    SyntaxNode all{.kind = Kind::sequence};
    while (true) {
      depth > 0 ? skip_lines() : skip_blanks();
      const uint32_t point = reader_.peek();
      if (reader_.at_end() || at_line_end() || point == '|' || point == ')' || point == ']') return all;
      if (reader_.take("->")) {
        skip_blanks();
        if (word().empty()) return reader_.error("wanted a name behind '->'");
        continue;
      }
      FULMAR_ASSIGN(SyntaxNode one, item(depth));
      FULMAR_ASSIGN(one, repeated(std::move(one)));
      all.parts.push_back(std::move(one));
    }
  }

  // Adds what %ignore allows after a part of a rule that takes characters.
  SyntaxNode token(SyntaxNode node) {
    if (in_terminal_) return node;
    SyntaxNode both{.kind = Kind::sequence};
    both.parts.push_back(std::move(node));
    both.parts.push_back(SyntaxNode::of_rule(reader_.rule(std::string(kIgnored))));
    return both;
  }

  Result<SyntaxNode> item(int depth) {
    if (reader_.take('"')) return text();
    if (reader_.take('/')) return pattern();
    if (reader_.take('(')) {
      FULMAR_ASSIGN(SyntaxNode inner, choice(depth + 1));
      if (!reader_.take(')')) return reader_.error("a '(' that is never closed");
      return inner;
    }
    if (reader_.take('[')) {
      FULMAR_ASSIGN(SyntaxNode inner, choice(depth + 1));
      if (!reader_.take(']')) return reader_.error("a '[' that is never closed");
      return SyntaxNode::repeated(std::move(inner), 0, 1);
    }
    const std::string name = word();
    if (name.empty()) return reader_.error("wanted a text, a pattern, a group or a name");
    const uint32_t behind = reader_.peek(1);
    const bool counted = (behind >= '0' && behind <= '9') || behind == ',';
    if (reader_.peek() == '{' && !counted) return reader_.unsupported("a template");
    SyntaxNode node = SyntaxNode::of_rule(reader_.rule(name));
    return is_terminal(name) ? token(std::move(node)) : node;
  }

  Result<SyntaxNode> text() {
    FULMAR_ASSIGN(std::string first, reader_.quoted());
    if (reader_.take("..")) {
      if (!reader_.take('"')) return reader_.error("wanted a text behind '..'");
      FULMAR_ASSIGN(const std::string last, reader_.quoted());
      const auto from = code_points_of(first);
      const auto to = code_points_of(last);
      if (from.size() != 1 || to.size() != 1 || from[0] > to[0]) {
        return reader_.error("wanted one character on each side of '..', in order");
      }
      return token(SyntaxNode::of_set(CodePointSet::of(from[0], to[0])));
    }
    if (reader_.peek() == 'i' && !is_word(reader_.peek(1))) {
      reader_.next();
      return token(in_either_case(first));
    }
    return token(SyntaxNode::of_text(std::move(first)));
  }

  Result<SyntaxNode> pattern() {
    std::string text;
    while (!reader_.take('/')) {
      if (reader_.at_end() || at_line_end()) return reader_.error("a '/' that is never closed");
      const uint32_t point = reader_.next();
      append_utf8(point, text);
      if (point == '\\' && !reader_.at_end()) append_utf8(reader_.next(), text);
    }
    if (is_lower(reader_.peek())) return reader_.unsupported("a flag of a pattern");
    FULMAR_ASSIGN(SyntaxNode node, pattern_node(text));
    return token(std::move(node));
  }

  Result<SyntaxNode> pattern_node(std::string_view text) {
    auto tree = parse_pattern(text);
    if (!tree) {
      const Error error = reader_.error(fmt::format("pattern /{}/: {}", text, tree.error().text));
      return Error{tree.error().kind, error.text};
    }
    SyntaxNode node{.kind = Kind::pattern};
    node.pattern = std::make_shared<const Pattern>(std::move(*tree));
    return node;
  }

  Result<SyntaxNode> repeated(SyntaxNode one) {
    skip_blanks();
    if (reader_.take('*')) return SyntaxNode::repeated(std::move(one), 0, -1);
    if (reader_.take('+')) return SyntaxNode::repeated(std::move(one), 1, -1);
    if (reader_.take('?')) return SyntaxNode::repeated(std::move(one), 0, 1);
    if (reader_.take('{')) return reader_.braces(std::move(one));
    if (!reader_.take('~')) return one;
    skip_blanks();
    const auto least = reader_.number();
    const auto most = reader_.take("..") ? reader_.number() : least;
    if (!least || !most || *most > kMaxRepeat || *least > *most) {
      return reader_.error(fmt::format("a count; wanted ~n or ~n..m of at most {}", kMaxRepeat));
    }
    return SyntaxNode::repeated(std::move(one), *least, *most);
  }

  SyntaxReader reader_;
  bool in_terminal_ = false;  // nothing is ignored within the definition that is being read
  std::vector<SyntaxNode> ignored_;
};

}  // namespace

Result<Syntax> parse_lark(std::string_view text) {
  if (!is_utf8(text)) return Error{ErrorKind::invalid, "the grammar is no UTF-8"};
  return LarkParser(text).parse();
}

}  // namespace fulmar
