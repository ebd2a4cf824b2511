// The rule for fields that a route does not use. A field that any API has and that this route lacks is either
// refused by name or accepted with a warning; keys that no API has get a warning, too. Knows no call.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/json_value.h"
#include "server/core/errors.h"
#include "server/core/route.h"

namespace fulmar {

// What becomes of a field where a route does not keep it.
enum class Unkept : uint8_t {
  refused,
  told,     // in the warnings of the answer
  checked,  // nothing: whichever of its words is said, the answer is the same
};

// `of.member` for a member of an object.
struct KnownField {
  std::string_view name;
  Unkept way = Unkept::refused;
  std::string_view neutral =
      {};                       // JSON of the value that asks for nothing; empty: false, 0 and what is empty
  std::string_view words = {};  // " a b ": the only texts that it may be; empty: any
};

struct UnkeptFields {
  std::optional<ApiError> fault;
  std::vector<std::string> warnings;
};

// The rule over a table of routes.
class KeptFields {
 public:
  explicit KeptFields(std::span<const Route> routes);

  // Returns all fields of all generating routes, and those that only other servers know.
  std::span<const KnownField> known() const { return vocabulary_; }
  // Tells whether a route uses a field of its body. `path`: as in the table of routes; on the paths that
  // serve three kinds of input, `body` decides.
  bool keeps(std::string_view path, const JsonValue& body, std::string_view name) const;
  // Looks at the body of a request for that route, and at what lies in its objects `params` and, of
  // Ollama's, `options`. Two spellings of one thing that differ are a fault, too.
  UnkeptFields check(std::string_view path, const JsonValue& body) const;

 private:
  using Names = std::set<std::string_view>;
  struct Part;
  struct Told;

  const Names& kept_by(std::string_view path, const JsonValue& body) const;
  // Tells whether any API has a field of that name, or an object with a member of that name.
  bool is_known(std::string_view key) const { return known_.contains(key); }
  void check_part(const Part& part, UnkeptFields& found, Told& told) const;
  void note_unknown(const Part& part, Told& told) const;

  std::map<std::string_view, Names> kept_;  // by path
  Names kept_options_;
  std::vector<KnownField> vocabulary_;
  Names known_;
};

}  // namespace fulmar
