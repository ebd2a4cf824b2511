// A misspelt member in any object of any route's body: refused by its name, or told of under it. None is
// dropped in silence.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "server/admin_rig.h"
#include "server/generate/kept_fields.h"
#include "server/generate/member_shape.h"
#include "server/routes.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kMisspelt = "mispelt_name";

// The value of a field that holds nothing but the way to one object, with a misspelt member there; and how
// the answer has to name that member.
struct Hidden {
  std::string value, name;
};

// Adds a value for each object that the shape describes. `type`: of the object itself where it is one of
// several, as a member.
void hide(const MemberShape& shape, const std::string& type, std::vector<Hidden>& found) {
  if (shape.element()) {
    std::vector<Hidden> inner;
    hide(*shape.element(), "", inner);
    for (const Hidden& one : inner) found.push_back({"[" + one.value + "]", "[0]" + one.name});
  }
  for (const auto& [name, one] : shape.types()) {
    const std::string word = name == "*" ? "other" : name;
    hide(*one, word.empty() ? "" : fmt::format(R"("type":"{}",)", word), found);
  }
  if (shape.members().empty()) return;
  found.push_back({fmt::format(R"({{{}"{}":7}})", type, kMisspelt), fmt::format(".{}", kMisspelt)});
  for (const auto& [name, member] : shape.members()) {
    if (member.way != MemberShape::Way::read)
      found.push_back({fmt::format(R"({{{}"{}":7}})", type, name), "." + name});
    if (!member.shape) continue;
    std::vector<Hidden> inner;
    hide(*member.shape, "", inner);
    for (const Hidden& one : inner)
      found.push_back({fmt::format(R"({{{}"{}":{}}})", type, name, one.value), "." + name + one.name});
  }
}

// All that an answer tells: its body and its warnings.
std::string told(const Reply& reply) {
  std::string text = reply.body;
  for (const auto& [name, value] : reply.headers) {
    if (name == "Fulmar-Warning") text += "\n" + value;
  }
  return text;
}

bool takes_json(const Route& route) { return route.method != "GET" && !route.takes_bytes; }

TEST(MisspeltMembers, OfABodyAreNamedOnEveryRoute) {
  AdminRig rig;
  for (const Route& route : routes()) {
    if (!takes_json(route)) continue;
    const Reply reply = rig.send(std::string(route.method), path_with(route.path, "s"),
                                 fmt::format(R"({{"{}":7}})", kMisspelt));
    EXPECT_THAT(told(reply), HasSubstr(fmt::format("'{}'", kMisspelt))) << route.method << route.path;
  }
}

TEST(MisspeltMembers, OfObjectsWithinFieldsAreNamedOnEveryRoute) {
  AdminRig rig;
  size_t objects = 0;
  for (const Route& route : routes()) {
    for (const FieldGroup* group : route.note->fields.all()) {
      for (const Field& field : group->fields) {
        if (field.takes.members.empty() || route.note->fields.find(field.name) != &field) continue;
        std::vector<Hidden> hidden;
        hide(*MemberShape::parse(field.takes.members), "", hidden);
        for (const Hidden& one : hidden) {
          const std::string body = fmt::format(R"({{"{}":{}}})", field.name, one.value);
          const Reply reply = rig.send(std::string(route.method), path_with(route.path, "s"), body);
          EXPECT_THAT(told(reply), HasSubstr(fmt::format("'{}{}'", field.name, one.name)))
              << route.path << body;
          ++objects;
        }
      }
    }
  }
  EXPECT_GT(objects, 100U);
}

TEST(MisspeltMembers, OfAnUrlAreNamedOnEveryRoute) {
  AdminRig rig;
  for (const Route& route : routes()) {
    const std::string path = path_with(route.path, "s") + fmt::format("?{}=x", kMisspelt);
    const Reply reply = rig.send(std::string(route.method), path, route.method == "GET" ? "" : "{}");
    EXPECT_THAT(told(reply), HasSubstr(fmt::format("'{}'", kMisspelt))) << route.method << path;
    const bool changes = route.method != "GET" && field_rule(route) == FieldRule::refused;
    if (changes) {
      EXPECT_EQ(reply.status, 400) << path;
    }
  }
}

TEST(MisspeltMembers, AStreamOfAStoredResponseIsRefused) {
  const ServerRig rig;
  for (const char* query : {"stream=true", "include=x", "include[]=x", "starting_after=3"})
    EXPECT_EQ(rig.get(std::string("/v1/responses/resp_x?") + query).status, 400) << query;
  EXPECT_EQ(rig.get("/v1/responses/resp_x?stream=false&include=").status, 404);
  EXPECT_EQ(rig.get("/v1/responses/resp_x/input_items?limit=3&limit=4").status, 400);
}

// A list or an object whose members nobody has written down could lose some.
TEST(MisspeltMembers, AreLookedForInEveryFieldThatHoldsObjects) {
  for (const Route& route : routes()) {
    for (const FieldGroup* group : route.note->fields.all()) {
      for (const Field& field : group->fields) {
        const bool holds = field.takes.type == Takes::Type::object || field.takes.type == Takes::Type::list;
        EXPECT_FALSE(holds && field.takes.members.empty()) << route.path << field.name;
      }
    }
  }
}

TEST(MisspeltMembers, ChangeNothingWhereTheyWouldChangeWhatIsDone) {
  AdminRig rig;
  for (const Route& route : routes()) {
    if (!takes_json(route) || field_rule(route) != FieldRule::refused) continue;
    const Reply reply = rig.send(std::string(route.method), path_with(route.path, "s"),
                                 fmt::format(R"({{"{}":"x"}})", kMisspelt));
    EXPECT_EQ(reply.status, 400) << route.path << reply.body;
  }
}

}  // namespace
}  // namespace fulmar::testing
