// Members of the objects that lie in a field: which ones a parser reads, and what becomes of the others.
// Knows no route.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/json_value.h"

namespace fulmar {

// What a parser reads of a value, parsed from the text of Takes::members:
//   "any"                       all of it
//   {"": "a b", "c": SHAPE}     an object with members a, b and c, of which c has a shape of its own
//   {"": "!a ~b"}               a is refused where it asks for something, b is told of
//   [SHAPE]                     a list of that
//   {"?": {"x": SHAPE, "*": SHAPE}}   the shape of its member `type`; "": there is none; "*": any other
// A value of another kind than the shape's is the parser's business.
class MemberShape {
 public:
  enum class Way : uint8_t { read, refused, told };
  struct Member {
    Way way = Way::read;
    std::shared_ptr<const MemberShape> shape;
  };

  // Stops the program at a text that is no shape.
  static std::shared_ptr<const MemberShape> parse(std::string_view text);

  // Returns an object's members by name.
  const std::map<std::string, Member, std::less<>>& members() const { return members_; }
  // Returns what a list holds; else null.
  const std::shared_ptr<const MemberShape>& element() const { return element_; }
  // Returns the shapes of a choice by `type`.
  const std::map<std::string, std::shared_ptr<const MemberShape>, std::less<>>& types() const {
    return types_;
  }
  bool is_any() const { return members_.empty() && !element_ && types_.empty(); }

 private:
  static std::shared_ptr<const MemberShape> parse(const JsonValue& text);
  void add_words(std::string_view words);

  std::map<std::string, Member, std::less<>> members_;
  std::shared_ptr<const MemberShape> element_;
  std::map<std::string, std::shared_ptr<const MemberShape>, std::less<>> types_;
};

// Members of values that no parser reads, by name and place: "messages[0].content[2].x".
struct UnreadMembers {
  std::vector<std::string> unknown, told;
  size_t more_unknown = 0, more_told = 0;                           // beyond kMostShown of each
  std::optional<std::pair<std::string, const JsonValue*>> refused;  // the first one

  static constexpr size_t kMostShown = 8;
  void add_unknown(std::string name);
  void add_told(std::string name);
};

// Returns a key in quotes as it is told of, "a key of 70 bytes" where it is long. `place`: what stands before
// it, as "options.".
std::string quoted_key(std::string_view place, std::string_view key);

// Returns a warning about names: "WHAT: 'a', 'b' and 3 more".
std::string told_names(std::string_view what, const std::vector<std::string>& names, size_t more);

// Tells whether a member that nobody reads asks for something: it is not null, false, 0 or empty.
bool asks_for_something(const JsonValue& value);

// Adds to `found` the members of `value` that the shape does not read and that ask for something. `place`:
// the value's name.
void find_unread(const JsonValue& value, const MemberShape& shape, std::string_view place,
                 UnreadMembers& found);

}  // namespace fulmar
