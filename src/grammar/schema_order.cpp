// The order in which members stand, and how many of them.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "grammar/schema.h"
#include "grammar/schema_values.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr size_t kMaxAnyOrder = 10;  // members of which each set is told apart

// Returns the fewest members that the shape demands: an excluded empty object demands one.
int64_t least_members(const Shape& shape) {
  const bool excluded = std::any_of(shape.excluded.begin(), shape.excluded.end(),
                                    [](const JsonValue* one) { return one->is_object(); });
  return std::max<int64_t>(shape.least_members, excluded ? 1 : 0);
}

template <class Members>
size_t longest_optional_run(const Members& members) {
  size_t longest = 0, run = 0;
  for (const auto& member : members) {
    run = member.required ? 0 : run + 1;
    longest = std::max(longest, run);
  }
  return longest;
}

}  // namespace

// Returns the ways to end an object after `written` members: at once, and with unlisted ones. It may have
// `least` to `most` members; most < 0: any number. `close`: the brace at the end.
std::vector<Place> SchemaCompiler::ends_of_object(const std::optional<Rule>& unlisted, int64_t written,
                                                  int64_t least, int64_t most, Place close) {
  Grammar& g = grammar_;
  std::vector<Place> ways;
  if (written >= least) ways.push_back(written > 0 ? close : rules_.close_at_once("}", g.end()));
  const int64_t room = most < 0 ? -1 : most - written;
  if (unlisted && room != 0 && written + 1 >= least) {
    const Rule further = g.rule(rules_.comma(g.call(*unlisted, g.end())));
    const Place more = g.call(*unlisted, g.repeat(further, 0, room < 0 ? -1 : room - 1, close));
    ways.push_back(written > 0 ? rules_.comma(more) : more);
  }
  return ways;
}

// Builds from the end, once for each number of members written before that makes a difference: none (no comma
// is due), some, and those that the bounds distinguish. Two unlisted members of the same name count as one,
// so only the first of them can be demanded.
Result<std::optional<Place>> SchemaCompiler::members_in_order(const std::vector<Member>& members,
                                                              const std::optional<Rule>& unlisted,
                                                              const Shape& shape) {
  Grammar& g = grammar_;
  const auto count = static_cast<int64_t>(members.size());
  const int64_t most = shape.most_members;
  int64_t least = least_members(shape);
  const int64_t required =
      std::count_if(members.begin(), members.end(), [](const Member& member) { return member.required; });
  if (most >= 0 && (most < required || least > most)) return std::optional<Place>();
  if (least > count + (unlisted ? 1 : 0)) {
    if (!unlisted) return std::optional<Place>();
    const Error error{
        ErrorKind::unsupported,
        fmt::format("schema keyword 'minProperties' is {} where no more than {} can be kept: name "
                    "members by 'properties', 'required' or an 'enum' of 'propertyNames'",
                    least, count + 1)};
    if (!reader_.loosens(error)) return error;
    least = count + 1;
  }
  if (const size_t optional_run = longest_optional_run(members); optional_run > kMaxChoices) {
    const JsonValue& where = shape.objects.empty() ? document_.root() : *shape.objects.front();
    return reader_.unsupported(
        where, "properties",
        fmt::format("holds {} optional ones in a row; at most {} are allowed", optional_run, kMaxChoices));
  }
  if (least <= required) least = 0;
  const auto levels =
      static_cast<size_t>(most >= 0 ? std::min(most, count) : std::clamp<int64_t>(least, 1, count + 1));
  FULMAR_TRY(budget_.take(Budget::Item::work, members.size() * (levels + 1)));
  const Place close = rules_.close("}", g.end());
  std::vector<std::optional<Place>> from(levels + 1);  // by members written; nothing: no way to the end
  for (size_t written = 0; written <= levels; ++written) {
    const std::vector<Place> ways =
        ends_of_object(unlisted, static_cast<int64_t>(written), least, most, close);
    if (!ways.empty()) from[written] = g.branch(ways);
  }
  for (size_t i = members.size(); i-- > 0;) {
    const Member& member = members[i];
    const std::string key = json_quoted(member.name);
    std::vector<std::optional<Place>> before(levels + 1);
    for (size_t written = 0; written <= levels; ++written) {
      std::vector<Place> choices;
      const bool full = most >= 0 && static_cast<int64_t>(written) == most;
      const std::optional<Place> after = full ? std::nullopt : from[std::min(written + 1, levels)];
      if (after) {
        const Place one = g.text(key, rules_.colon(g.call(member.value, *after)));
        choices.push_back(written > 0 ? rules_.comma(one) : one);
      }
      if (!member.required && from[written]) choices.push_back(*from[written]);
      if (!choices.empty()) before[written] = g.branch(choices);
    }
    from = std::move(before);
  }
  if (!from[0]) return std::optional<Place>();
  return std::optional(rules_.open("{", *from[0]));
}

// Builds by the set of members written. Unlisted members follow the others.
Result<std::optional<Place>> SchemaCompiler::members_in_any_order(const std::vector<Member>& members,
                                                                  const std::optional<Rule>& unlisted,
                                                                  const Shape& shape) {
  if (members.size() > kMaxAnyOrder) {
    const Error error{
        ErrorKind::unsupported,
        fmt::format("member_order 'any' of an object of {} members is not supported; at most {} are",
                    members.size(), kMaxAnyOrder)};
    if (!reader_.loosens(error)) return error;
    return members_in_order(members, unlisted, shape);
  }
  Grammar& g = grammar_;
  size_t required = 0;
  for (size_t i = 0; i < members.size(); ++i) required |= members[i].required ? size_t{1} << i : 0;
  const Place close = rules_.close("}", g.end());
  std::vector<Place> from(size_t{1} << members.size(), g.nothing());
  FULMAR_TRY(budget_.take(Budget::Item::work, from.size() * members.size()));
  for (size_t set = from.size(); set-- > 0;) {
    const int64_t written = std::popcount(set);
    const int64_t room = shape.most_members < 0 ? -1 : shape.most_members - written;
    if (shape.most_members >= 0 && room < 0) continue;
    std::vector<Place> ways;
    if ((set & required) == required) {
      ways = ends_of_object(unlisted, written, shape.least_members, shape.most_members, close);
    }
    for (size_t i = 0; i < members.size() && room != 0; ++i) {
      if ((set >> i & 1) != 0) continue;
      const Place next = from[set | size_t{1} << i];
      const Place one = g.text(json_quoted(members[i].name), rules_.colon(g.call(members[i].value, next)));
      ways.push_back(written > 0 ? rules_.comma(one) : one);
    }
    if (!ways.empty()) from[set] = g.branch(ways);
  }
  return std::optional(rules_.open("{", from[0]));
}

}  // namespace fulmar
