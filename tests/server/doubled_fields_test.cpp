// A field that a request gives in the body and in an object beside it: the same twice, or refused by both
// names.
#include <gmock/gmock.h>

#include <map>

#include "server/generating_routes.h"
#include "server/routes.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string value_of(Takes::Type type) {
  using Type = Takes::Type;
  if (type == Type::integer || type == Type::number) return "1";
  if (type == Type::boolean) return "true";
  if (type == Type::list || type == Type::numbers) return "[]";
  return type == Type::object ? "{}" : R"("x")";
}

// All that is known to be a field of the route's body, each with a value of its type.
std::map<std::string, std::string> fields_of(std::string_view path) {
  std::map<std::string, std::string> names;
  for (const FieldGroup* group : find_route("POST", std::string(path)).route->note->fields.all()) {
    for (const Field& field : group->fields) names.emplace(field.name, value_of(field.takes.type));
  }
  for (const char* tools : {"tools", "tool_choice", "parallel_tool_calls"}) names.emplace(tools, "true");
  names.erase("options");
  return names;
}

TEST(DoubledFields, AreRefusedByBothPlacesOnEachRoute) {
  ServerRig rig;
  for (const auto& [path, body] : kBodies) {
    std::vector<std::string> objects = {"params"};
    if (path.starts_with("/api/")) objects.emplace_back("options");
    for (const auto& [name, value] : fields_of(path)) {
      const std::string given = "\"" + name + "\":";
      const std::string first = body.find(given) == std::string::npos ? "," + given + value : "";
      for (const std::string& object : objects) {
        const std::string second = ",\"" + object + "\":{" + given + "[\"other\"]}}";
        const Reply reply = rig.post(std::string(path), body + first + second);
        EXPECT_EQ(reply.status, 400) << path << first << second << reply.body;
        EXPECT_THAT(reply.body, HasSubstr("'" + name + "'")) << path;
        EXPECT_THAT(reply.body, HasSubstr("'" + object + "." + name + "'")) << path;
      }
    }
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(DoubledFields, ThatAreAlikeAreTaken) {
  ServerRig rig;
  for (const auto& [path, body] : kBodies) {
    std::vector<std::string> objects = {"params"};
    if (path.starts_with("/api/")) objects.emplace_back("options");
    for (const std::string& object : objects) {
      for (const char* one : {"1", "1.0"}) {
        const std::string second =
            std::string(R"(,"temperature":1,")") + object + R"(":{"temperature":)" + one;
        const Reply reply = rig.post(std::string(path), body + second + "}}");
        EXPECT_EQ(reply.status, 200) << path << second << reply.body;
      }
    }
  }
}

}  // namespace
}  // namespace fulmar::testing
