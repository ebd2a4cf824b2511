// Fields that APIs have, and what becomes of each on a route that does not keep it. Knows no route.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace fulmar {

// What becomes of a field where a route does not keep it.
enum class Unkept : uint8_t {
  refused,
  refused_everywhere,  // where tokens are counted and texts are taken apart, too
  told,                // in the warnings of the answer
  checked,             // nothing: whichever of its words is said, the answer is the same
};

// `of.member` for a member of an object.
struct KnownField {
  std::string_view name;
  Unkept way = Unkept::refused;
  std::string_view neutral =
      {};                       // JSON of the value that asks for nothing; empty: false, 0 and what is empty
  std::string_view words = {};  // " a b ": the only texts that it may be; empty: any
};

// Lists fields of our own whose absence on a route is a warning instead of a refusal, and those that no route
// has.
std::span<const KnownField> known_fields();

// Lists pairs of names for one parameter; a request with both must give them the same value.
std::span<const std::pair<std::string_view, std::string_view>> spellings();

}  // namespace fulmar
