// Arrays: elements by their place, counts, contained elements, and elements that differ.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

#include "grammar/schema.h"
#include "grammar/schema_values.h"

namespace fulmar {
namespace {

constexpr int64_t kMaxContained = 64;  // of the bounds of 'contains', and of items beside it
constexpr size_t kMaxDifferent = 7;    // elements of which each set is told apart
constexpr int64_t kMaxListed = 2000;

// Returns the most elements of an array, which ends before a listed element that nothing fits.
int64_t end_of(const SchemaElements& elements, size_t listed, int64_t most) {
  for (size_t i = 0; i <= listed; ++i) {
    if (most >= 0 && static_cast<int64_t>(i) >= most) break;
    if (nothing_fits(elements.at(i))) return static_cast<int64_t>(i);
  }
  return most;
}

}  // namespace

Result<std::optional<Place>> SchemaCompiler::array_body(const Shape& shape) {
  FULMAR_TRY(check_excluded(kArray, shape));
  const SchemaElements elements(shape);
  for (const Shape::Unevaluated& one : shape.unevaluated) {
    if (!one.schema->find("unevaluatedItems") || shape.contained.empty()) continue;
    return reader_.unsupported(*one.schema, "unevaluatedItems", "is not supported beside 'contains'");
  }
  if (static_cast<int64_t>(elements.listed) > kMaxListed) {
    return reader_.unsupported(
        *shape.lists.front(), "items",
        fmt::format("lists {} elements; at most {} are allowed", elements.listed, kMaxListed));
  }
  int64_t least = shape.least_items;
  for (const JsonValue* one : shape.excluded) {
    if (one->is_array()) least = std::max<int64_t>(least, 1);
  }
  int64_t most = end_of(elements, elements.listed, shape.most_items);
  // After the listed elements others are written only where they are described or wanted.
  const bool open = elements.listed == 0 || elements.describes_rest || options_.unlisted;
  if (!open) {
    const int64_t enough = std::max(least, static_cast<int64_t>(elements.listed));
    most = most < 0 ? enough : std::min(most, enough);
  }
  if (most >= 0 && least > most) return std::optional<Place>();
  if (shape.unique && most != 0 && most != 1) return unique_items(shape, elements, most);
  if (!shape.contained.empty()) return containing(shape, elements, most);
  return counted_items(elements, elements.listed, least, most);
}

// Builds from the end: what may follow the listed elements, then one listed element after the other.
Result<std::optional<Place>> SchemaCompiler::counted_items(const SchemaElements& elements, size_t listed,
                                                           int64_t least, int64_t most) {
  Grammar& g = grammar_;
  const Place empty = rules_.open("[", rules_.close_at_once("]", g.end()));
  if (most == 0) return std::optional(empty);
  const Place close = rules_.close("]", g.end());
  const auto count = static_cast<int64_t>(listed);
  const int64_t least_more = std::max<int64_t>(0, least - std::max<int64_t>(count, 1));
  const int64_t most_more = most < 0 ? -1 : std::max<int64_t>(0, most - std::max<int64_t>(count, 1));
  Place place = close;
  if (most_more != 0) {
    const Rule rest = rule_of(elements.at(listed));
    place = g.repeat(g.rule(rules_.comma(g.call(rest, g.end()))), least_more, most_more, close);
  }
  // The first element stands without a comma; where none is listed it is one of the rest.
  const int64_t first = std::max<int64_t>(count, 1);
  for (int64_t i = first; i-- > 0;) {
    if (most >= 0 && i >= most) continue;
    const Place element = g.call(rule_of(elements.at(static_cast<size_t>(i))), place);
    place = i == 0 ? element : rules_.comma(element);
    if (i > 0 && i >= least) place = g.branch(close, place);
  }
  place = rules_.open("[", place);
  return std::optional(least == 0 ? g.branch(empty, place) : place);
}

// Takes elements by index and number of sought ones before: each is a sought one, and counts, or any.
Result<std::optional<Place>> SchemaCompiler::containing(const Shape& shape, const SchemaElements& elements,
                                                        int64_t most) {
  const Shape::Contained& sought = shape.contained.front();
  const int64_t bounds = std::max({sought.least, sought.most, shape.least_items});
  if (shape.contained.size() > 1 || bounds > kMaxContained || most > kMaxContained) {
    return reader_.unsupported(
        *sought.schema, sought.item.fits ? "contains" : "not",
        fmt::format("asks for elements beside other counts; at most one such keyword and "
                    "counts of up to {} are supported",
                    kMaxContained));
  }
  Grammar& g = grammar_;
  const auto counted = static_cast<size_t>(std::max(sought.least, sought.most < 0 ? 0 : sought.most));
  const auto listed = static_cast<int64_t>(elements.listed);
  const int64_t last = most >= 0 ? most : std::max({listed, shape.least_items, int64_t{1}});
  FULMAR_TRY(budget_.take(Budget::Item::work, (counted + 1) * static_cast<size_t>(last + 1)));
  const auto ends = [&](int64_t index, size_t count) {
    const auto found = static_cast<int64_t>(count);
    return index >= shape.least_items && found >= sought.least && (sought.most < 0 || found <= sought.most);
  };
  // `behind`: by count, what follows an element; the loop at the end refers to itself by rules.
  const auto element = [&](int64_t index, size_t count, const std::vector<Place>& behind) {
    std::vector<Place> choices;
    Demands demands = elements.at(static_cast<size_t>(index));
    Demands found = demands;
    found.push_back(sought.item);
    const bool full = sought.most >= 0 && static_cast<int64_t>(count) >= sought.most;
    if (!full) choices.push_back(g.call(rule_of(found), behind[std::min(count + 1, counted)]));
    if (sought.most >= 0) demands.push_back({sought.item.schema, !sought.item.fits});
    choices.push_back(g.call(rule_of(demands), behind[count]));
    return g.branch(choices);
  };
  const Place close = rules_.close("]", g.end());
  std::vector<Place> from(counted + 1);
  if (most < 0) {
    std::vector<Rule> loops;
    for (size_t count = 0; count <= counted; ++count) loops.push_back(g.new_rule());
    for (size_t count = 0; count <= counted; ++count) from[count] = g.call(loops[count], g.end());
    for (size_t count = 0; count <= counted; ++count) {
      const Place more = rules_.comma(element(last, count, from));
      g.begin(loops[count], ends(last, count) ? g.branch(close, more) : more);
    }
  } else {
    for (size_t count = 0; count <= counted; ++count) from[count] = ends(last, count) ? close : g.nothing();
  }
  for (int64_t index = last; index-- > 0;) {
    std::vector<Place> before;
    for (size_t count = 0; count <= counted; ++count) {
      const Place one = element(index, count, from);
      const Place more = index == 0 ? one : rules_.comma(one);
      before.push_back(index > 0 && ends(index, count) ? g.branch(close, more) : more);
    }
    from = std::move(before);
  }
  std::vector<Place> choices;
  if (ends(0, 0)) choices.push_back(rules_.open("[", rules_.close_at_once("]", g.end())));
  if (last > 0) choices.push_back(rules_.open("[", from[0]));
  if (choices.empty()) return std::optional<Place>();
  return std::optional(g.branch(choices));
}

// Returns the listed values of the shapes that fit, each once.
Result<SchemaCompiler::Listed> SchemaCompiler::values_in(const std::vector<Shape>& shapes) {
  Listed listed;
  std::set<std::string> known;
  for (const Shape& one : shapes) {
    if (!one.values) return Listed{.complete = false};
    Shape rest = one;
    rest.values.reset();
    for (const JsonValue* value : *one.values) {
      FULMAR_ASSIGN(const bool fitting, expansion_.fits(*value, rest));
      if (fitting && known.insert(same_text(*value)).second) listed.values.push_back(value);
    }
  }
  return listed;
}

// Returns the listed values that fit the demands; drops a format if it leaves none of them.
Result<SchemaCompiler::Listed> SchemaCompiler::listed_values(const Demands& demands) {
  if (demands.empty()) return Listed{.complete = false};
  FULMAR_ASSIGN(auto shapes, expansion_.shapes_of(demands));
  FULMAR_ASSIGN(Listed listed, values_in(shapes));
  if (!listed.complete || !listed.values.empty()) return listed;
  const auto format = take_formats(demands, shapes);
  if (!format) return listed;
  FULMAR_ASSIGN(listed, values_in(shapes));
  if (!listed.values.empty()) FULMAR_TRY(give_up(*format, demands));
  return listed;
}

// Takes different elements: in any order if few values are listed, otherwise in the schema's order.
Result<std::optional<Place>> SchemaCompiler::unique_items(const Shape& shape, const SchemaElements& elements,
                                                          int64_t most) {
  Listed listed{.complete = false};
  if (elements.listed == 0 && shape.contained.empty()) {
    FULMAR_ASSIGN(listed, listed_values(elements.at(0)));
  }
  if (!listed.complete || listed.values.size() > kMaxChoices) {
    const Error error =
        reader_.unsupported(*shape.unique, "uniqueItems",
                            "is true of elements that 'enum' or 'const' do not list; that is not supported");
    if (!reader_.loosens(error)) return error;
    Shape looser = shape;
    looser.unique = nullptr;
    return array_body(looser);
  }
  const std::vector<const JsonValue*>& values = listed.values;
  const auto count = static_cast<int64_t>(values.size());
  const int64_t last = most < 0 ? count : std::min(most, count);
  if (shape.least_items > last) return std::optional<Place>();
  Grammar& g = grammar_;
  const Place close = rules_.close("]", g.end());
  std::vector<Place> choices;
  if (shape.least_items == 0) choices.push_back(rules_.open("[", rules_.close_at_once("]", g.end())));
  if (values.size() <= kMaxDifferent) {
    // Indexed by the set of those written; larger sets are built first.
    std::vector<Place> from(size_t{1} << values.size(), g.nothing());
    for (size_t set = from.size(); set-- > 0;) {
      const int64_t written = std::popcount(set);
      std::vector<Place> ways;
      if (written > 0 && written >= shape.least_items && written <= last) ways.push_back(close);
      for (size_t i = 0; i < values.size() && written < last; ++i) {
        if ((set >> i & 1) != 0) continue;
        const Place one = value(*values[i], from[set | size_t{1} << i]);
        ways.push_back(written > 0 ? rules_.comma(one) : one);
      }
      if (!ways.empty()) from[set] = g.branch(ways);
    }
    choices.push_back(rules_.open("[", from[0]));
    return std::optional(g.branch(choices));
  }
  FULMAR_TRY(budget_.take(Budget::Item::work, values.size() * static_cast<size_t>(last + 1)));
  std::vector<Place> from;  // by how many are written
  for (int64_t written = 0; written <= last; ++written) {
    from.push_back(written > 0 && written >= shape.least_items ? close : g.nothing());
  }
  for (size_t i = values.size(); i-- > 0;) {
    std::vector<Place> before = from;
    for (size_t written = 0; written < static_cast<size_t>(last); ++written) {
      const Place one = value(*values[i], from[written + 1]);
      before[written] = g.branch(written > 0 ? rules_.comma(one) : one, from[written]);
    }
    from = std::move(before);
  }
  choices.push_back(rules_.open("[", from[0]));
  return std::optional(g.branch(choices));
}

}  // namespace fulmar
