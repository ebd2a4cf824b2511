// Arrays: items, listed items and counts.
#include <algorithm>

#include "grammar/schema.h"
#include "grammar/schema_values.h"

namespace fulmar {

Result<Place> SchemaCompiler::array_body(const JsonValue& schema, const Where& where) {
  FULMAR_ASSIGN(const auto min_items, count_of(schema, "minItems", text_of(where)));
  FULMAR_ASSIGN(const auto max_items, count_of(schema, "maxItems", text_of(where)));
  const int64_t least = min_items.value_or(0);
  if (max_items && least > *max_items) return nothing_fits(text_of(where));
  const JsonValue* prefix = schema.find("prefixItems");
  const JsonValue* items = schema.find("items");
  if (prefix && !prefix->is_array()) {
    return invalid_keyword(text_of(where), "prefixItems", *prefix, "an array of schemas");
  }
  if (items && items->is_array()) return invalid_keyword(text_of(where), "items", *items, "a schema");
  const bool closed = items && items->is_bool() && !items->as_bool();
  const Rule rest =
      items && !closed ? rule_of(*items, below(where, "items")) : rules_.any_value(kFreeDepth - 1);
  const int64_t listed = prefix ? static_cast<int64_t>(prefix->as_array().size()) : 0;
  if (closed && least > listed) return nothing_fits(text_of(where));
  if (listed == 0) return rules_.array_of(rest, least, closed ? 0 : max_items.value_or(-1), grammar_.end());
  return listed_items(prefix->as_array(), rest, items && !closed, least, max_items, where);
}

// From the end: what may follow the listed items, then one listed item after the other.
Result<Place> SchemaCompiler::listed_items(const JsonValue::Array& listed, Rule rest, bool open_end,
                                           int64_t least, std::optional<int64_t> most, const Where& where) {
  Grammar& g = grammar_;
  const auto count = static_cast<int64_t>(listed.size());
  const Place close = rules_.close("]", g.end());
  const Rule further = g.rule(rules_.comma(g.call(rest, g.end())));
  const int64_t least_further = std::max<int64_t>(0, least - count);
  int64_t most_further = most ? std::max<int64_t>(0, *most - count) : -1;
  if (!open_end) most_further = least_further;
  Place place = g.repeat(further, least_further, most_further, close);
  const Where& there = below(where, "prefixItems");
  for (int64_t i = count; i-- > 0;) {
    const auto index = static_cast<size_t>(i);
    if (most && i >= *most) {
      place = i == 0 ? rules_.close_at_once("]", g.end()) : close;
      continue;
    }
    const Place element = g.call(rule_of(listed[index], below(there, index)), place);
    place = i == 0 ? element : rules_.comma(element);
    if (i >= least) place = g.branch(i == 0 ? rules_.close_at_once("]", g.end()) : close, place);
  }
  return rules_.open("[", place);
}

}  // namespace fulmar
