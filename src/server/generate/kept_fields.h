// The rule for fields that a route does not use. A field that any API has and that this route lacks is either
// refused by name or accepted with a warning; keys that no API has get a warning, too. Where something is
// steered, stored or administered, all of them are refused. Knows no call.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/json_value.h"
#include "server/core/route.h"
#include "server/core/unkept.h"
#include "server/generate/known_fields.h"
#include "server/generate/member_shape.h"

namespace fulmar {

// What a route does with fields that it does not use.
enum class FieldRule : uint8_t {
  judged,   // makes something of a text: each known field in its way, keys that nobody knows are told of
  refused,  // steers, stores or administers: all of them, since what is done would be another thing
  told,     // reads or counts: all of them, but for those that are refused everywhere
};

FieldRule field_rule(const Route& route);

// The rule over a table of routes.
class KeptFields {
 public:
  explicit KeptFields(std::span<const Route> routes);

  // Returns all fields of all generating routes, and those that only other servers know.
  std::span<const KnownField> known() const { return vocabulary_; }
  // Tells whether a route uses a field of its body. `path`: as in the table of routes; on the paths that
  // serve three kinds of input, `body` decides.
  bool keeps(std::string_view path, const JsonValue& body, std::string_view name) const;
  // Looks at the body of a request for that route, at the objects in its fields, and at what lies in its
  // objects `params` and, of Ollama's, `options`. Two spellings of one thing that differ are a fault, too.
  UnkeptFields check(std::string_view path, const JsonValue& body) const;

 private:
  using Names = std::set<std::string_view>;
  struct Part;
  // What the route of a path uses.
  struct Uses {
    FieldRule rule = FieldRule::judged;
    Names names;
    std::map<std::string_view, std::shared_ptr<const MemberShape>> shapes;  // of fields that hold objects
  };

  const Uses& used_by(std::string_view path, const JsonValue& body) const;
  // Tells whether any API has a field of that name, or an object with a member of that name.
  bool is_known(std::string_view key) const { return known_.contains(key); }
  void check_part(const Part& part, UnkeptFields& found, UnreadMembers& unread) const;
  void judge(const Part& part, UnkeptFields& found, UnreadMembers& unread) const;
  void note_unknown(const Part& part, UnreadMembers& unread) const;

  std::map<std::string_view, Uses> uses_;  // by path
  Uses options_;
  std::vector<KnownField> vocabulary_;
  Names known_;
};

}  // namespace fulmar
