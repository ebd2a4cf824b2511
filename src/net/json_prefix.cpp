#include "net/json_prefix.h"

#include "net/model_json.h"

namespace fulmar {
namespace {

// Follows nesting and strings, and knows up to where values are whole: after a bracket, before a comma, after
// a string that is not a name.
class PrefixWalk {
 public:
  // Takes one character. Returns false at the end of the object, and where brackets do not match.
  bool take(char c, size_t end) {
    if (in_string_) {
      take_in_string(c, end);
      return true;
    }
    switch (c) {
      case '"':
        in_string_ = true;
        return true;
      case '{':
      case '[':
        owed_ += c == '{' ? '}' : ']';
        whole_ = end;
        break;
      case '}':
      case ']':
        if (owed_.empty() || owed_.back() != c) return false;
        owed_.pop_back();
        whole_ = end;
        closed_ = owed_.empty();
        return !closed_;
      case ',':
        whole_ = end - 1;
        break;
      case ':':
        break;
      default:
        return true;
    }
    before_ = c;
    return true;
  }

  bool closed() const { return closed_; }
  size_t whole() const { return whole_; }
  std::string closing() const { return {owed_.rbegin(), owed_.rend()}; }

 private:
  void take_in_string(char c, size_t end) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
      if (before_ == ':' || owed_.ends_with(']')) whole_ = end;
    }
  }
  bool in_string_ = false, escaped_ = false, closed_ = false;
  char before_ = 0;   // the last of { [ , :
  std::string owed_;  // closing brackets, the innermost last
  size_t whole_ = 0;  // values are whole up to here
};

}  // namespace

JsonPrefix read_json_prefix(std::string_view text) {
  PrefixWalk walk;
  size_t at = 0;
  while (at < text.size() && walk.take(text[at], at + 1)) ++at;
  const std::string_view whole = text.substr(0, walk.whole());
  PrefixWalk again;
  for (size_t i = 0; i < whole.size(); ++i) again.take(whole[i], i + 1);
  std::string completed = std::string(whole) + again.closing();
  const auto value = parse_model_json(completed);
  if (!value || !value->is_object()) completed = "{}";
  return {walk.closed() ? whole : text, walk.closed(), std::move(completed)};
}

}  // namespace fulmar
