// A schema document: its draft, the targets of its references, and the places of its parts. Knows no keyword
// that asserts.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "net/json_value.h"

namespace fulmar {

class SchemaDocument {
 public:
  // Reads the document, which must outlive this.
  explicit SchemaDocument(const JsonValue& document);

  const JsonValue& root() const { return root_; }
  // Returns whether keywords beside a $ref count, as since 2019-09; before, a $ref replaces the schema.
  bool counts_beside_reference() const { return counts_beside_reference_; }
  // Returns the target of `keyword` ("$ref", "$dynamicRef" or "$recursiveRef") of the schema. Errors:
  // unsupported, without keyword and place.
  Result<const JsonValue*> referred(const JsonValue& schema, std::string_view keyword) const;
  // Returns the place of a part of the document, as '#' and a JSON pointer, cut where it is long.
  std::string place_of(const JsonValue& part) const;

 private:
  void look_into(const JsonValue& value, const std::string& base);
  Result<const JsonValue*> found(const std::string& base, std::string_view reference) const;

  const JsonValue& root_;
  bool counts_beside_reference_ = true;
  bool has_recursive_anchor_ = false;
  std::map<std::string, const JsonValue*, std::less<>> resources_;  // by absolute URI
  std::map<std::string, const JsonValue*, std::less<>> anchors_;    // by URI, '#' and name
  std::map<std::string, int, std::less<>> dynamic_anchors_;         // how often a name is given
  std::unordered_map<const JsonValue*, std::string> bases_;         // of schemas that hold a reference
};

}  // namespace fulmar
