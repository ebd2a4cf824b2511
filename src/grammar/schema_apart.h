// Decides which schemas exclude each other, as the alternatives of a oneOf must. Knows no grammar.
#pragma once

#include <bitset>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/result.h"
#include "grammar/budget.h"
#include "grammar/schema_document.h"
#include "grammar/schema_shape.h"
#include "net/json_value.h"

namespace fulmar {

// Remembers each pair that has been compared.
class SchemaPairs {
 public:
  // Compares schemas of a document; both arguments must outlive this.
  SchemaPairs(const SchemaDocument& document, Budget& budget) : document_(document), budget_(budget) {}

  // Returns true only when no value fits both. Errors: those of the budget.
  Result<bool> apart(const JsonValue& one, const JsonValue& other) { return compare(one, other, kMaxDepth); }

 private:
  // How deep nested schemas are compared; deeper ones count as the same.
  static constexpr int kMaxDepth = 32;

  struct Facts {
    Kinds kinds;                                  // of JSON values that may fit
    std::optional<std::set<std::string>> values;  // where they are listed one by one
    const JsonObject* properties = nullptr;
    std::unordered_set<std::string_view> required;
  };

  Result<bool> compare(const JsonValue& first, const JsonValue& second, int depth);
  Result<const JsonValue*> resolved(const JsonValue& schema);
  Result<const Facts*> facts_of(const JsonValue& schema);

  const SchemaDocument& document_;
  Budget& budget_;
  std::unordered_map<const JsonValue*, Facts> facts_;
  std::map<std::pair<const JsonValue*, const JsonValue*>, bool> known_;
};

}  // namespace fulmar
