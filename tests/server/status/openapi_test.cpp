// The description of all routes.
#include "server/status/openapi.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <utility>

#include "server/admin_rig.h"
#include "server/core/fields.h"
#include "server/generate/generation.h"
#include "server/generate/kept_fields.h"
#include "server/routes.h"
#include "support/document_section.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;

TEST(Openapi, ListsTheTableOfRoutes) {
  const auto document = parse_json(ServerRig().get("/openapi.json").body);
  ASSERT_TRUE(document.ok());
  std::set<std::string> listed, wanted;
  for (const auto& [path, operations] : document->find("paths")->as_object().members()) {
    for (const auto& [method, operation] : operations.as_object().members()) {
      EXPECT_FALSE(operation.find("summary")->as_string().empty()) << method << " " << path;
      listed.insert(method + " " + path);
    }
  }
  for (const Route& route : routes()) {
    std::string path = path_with(route.path, "{id}"), method(route.method);
    std::transform(method.begin(), method.end(), method.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    wanted.insert(method + " " + path);
    const JsonValue* security = document->find("paths")->find(path)->find(method)->find("security");
    const bool asks = needs_key({.password = "p"}, route.access);
    EXPECT_EQ(!security->as_array().empty(), asks) << method << " " << path;
  }
  EXPECT_EQ(listed, wanted);
}

// A request that each route with fields takes, so that what is wrong with it is the one field that a test
// adds.
std::string valid_body(std::string_view path) {
  const std::string chat = R"("messages":[{"role":"user","content":"hi"}],)";
  if (path == "/api/chat" || path == "/v1/tokens/count") return chat;
  if (path == "/v1/server/resume") return R"("request_id":"r",)";
  if (path == "/v1/messages" || path == "/v1/messages/count_tokens") return chat + R"("max_tokens":2,)";
  if (path == "/api/generate" || path == "/api/embeddings") return R"("prompt":"x",)";
  if (path == "/v1/responses" || path == "/v1/responses/input_tokens") return R"("input":"x",)";
  if (path == "/v1/embeddings" || path == "/api/embed") return R"("input":"x",)";
  if (path == "/infill") return R"("input_prefix":"a","input_suffix":"b",)";
  if (path.ends_with("/completion") || path == "/v1/completions" || path == "/completions")
    return R"("prompt":"x",)";
  if (path.find("fim") != path.npos || path.find("FIM") != path.npos)
    return R"("prefix":["a"],"suffix":["b"],)";
  if (path.ends_with("translate")) return R"("target_lang":"en","text_list":["a"],)";
  if (path.find("multi_state") != path.npos) return R"("session_id":"s","dialogue_idx":0,"contents":["a"],)";
  if (path == "/state/chat/completions") return R"("session_id":"s","contents":["a"],)";
  if (path.ends_with("/chat/completions") && !path.starts_with("/v2")) return chat;
  if (path.starts_with("/v2") || path.find("batch") != path.npos) return R"("contents":["a"],)";
  if (path == "/apply-template") return chat;
  if (path == "/tokenize") return R"("content":"x",)";
  if (path == "/loadmodel") return R"("model_filename":"m","model_viewname":"M",)";
  if (path == "/loadstatemodel") return R"("state_filename":"s","state_viewname":"S",)";
  if (path == "/mrss_loadstatemodel") return R"("state_filenames":["a"],"state_viewname":"S",)";
  if (path == "/mrss_set_gatingweight") return R"("state_viewname":"S","state_gatingweight":[1],)";
  return {};
}

// Values that a field does not take; none where it looks at no type.
std::vector<std::string> wrong_values(const Takes& takes) {
  using Type = Takes::Type;
  switch (takes.type) {
    case Type::any:
      return {};
    case Type::text:
    case Type::word:
    case Type::texts:
    case Type::list:
    case Type::numbers:
    case Type::object:
      return {"17"};
    case Type::integer:
    case Type::number: {
      std::vector<std::string> values = {R"("wrong")"};
      if (takes.least > -Takes::kOpen) values.push_back(fmt::format("{}", takes.least - 1));
      if (takes.most < Takes::kOpen) values.push_back(fmt::format("{}", takes.most + 1));
      return values;
    }
    case Type::boolean:
    case Type::seed:
      return {R"("wrong")"};
  }
  return {};
}

// A client that is made from the document asks for exactly these paths.
TEST(Openapi, NamesWhatStandsBehindAnId) {
  const auto document = parse_json(ServerRig().get("/openapi.json").body);
  ASSERT_TRUE(document.ok());
  const std::pair<std::string_view, std::set<std::string_view>> wanted[] = {
      {"/v1/sessions/{id}", {"delete"}},       {"/v1/sessions/{id}/state", {"get", "put"}},
      {"/v1/sessions/{id}/fork", {"post"}},    {"/v1/responses/{id}", {"get", "delete"}},
      {"/v1/responses/{id}/cancel", {"post"}}, {"/v1/responses/{id}/input_items", {"get"}}};
  for (const auto& [path, methods] : wanted) {
    const JsonValue* operations = document->find("paths")->find(path);
    ASSERT_NE(operations, nullptr) << path;
    std::set<std::string_view> found;
    for (const auto& [method, operation] : operations->as_object().members()) {
      found.insert(method);
      EXPECT_NE(operation.find("parameters"), nullptr) << method << " " << path;
    }
    EXPECT_EQ(found, methods) << path;
  }
}

TEST(Openapi, TellsTheMembersOfWhatLiesInAField) {
  const auto document = parse_json(ServerRig().get("/openapi.json").body);
  ASSERT_TRUE(document.ok());
  const JsonValue& schemas = *document->find("components")->find("schemas");
  const auto property = [&](std::string_view group, std::string_view field) {
    return schemas.find(fmt::format("fields.{}", group))->find("properties")->find(field);
  };
  for (const Route& route : routes()) {
    for (const FieldGroup* group : route.note->fields.all()) {
      for (const Field& field : group->fields) {
        if (field.takes.members.empty() || field.takes.members == "any") continue;
        const JsonValue* told = property(group->name, field.name);
        ASSERT_NE(told, nullptr) << group->name << " " << field.name;
        EXPECT_TRUE(told->find("items") || told->find("properties") || told->find("anyOf"))
            << group->name << " " << field.name;
      }
    }
  }
  const JsonValue* options = property(kUsageFields.name, "stream_options")->find("properties");
  EXPECT_EQ(options->as_object().members().size(), 1u);
  EXPECT_NE(options->find("include_usage"), nullptr);
}

// Read of mixtures alone.
bool is_read_later(const Field& field) { return field.name == "mrss_gatingweight"; }

TEST(Openapi, TellsOfNoFieldThatARouteDoesNotTake) {
  AdminRig rig;
  for (const Route& route : routes()) {
    if (route.method != "POST" || route.takes_bytes) continue;
    const std::string path = path_with(route.path, "s");
    for (const FieldGroup* group : route.note->fields.all()) {
      for (const Field& field : group->fields) {
        if (route.note->fields.find(field.name) != &field || is_read_later(field)) continue;
        for (const std::string& value : wrong_values(field.takes)) {
          const std::string body = fmt::format("{{{}\"{}\":{}}}", valid_body(route.path), field.name, value);
          const Reply reply = rig.post(path, body);
          EXPECT_EQ(reply.status, 400) << path << " " << body << " " << reply.body;
          EXPECT_THAT(reply.body, HasSubstr(std::string(field.name))) << path << " " << body;
        }
      }
    }
  }
}

// Words that the rule of kept fields judges where a route does not keep them.
bool is_judged_everywhere(std::string_view name) {
  static const KeptFields kept(routes());
  return std::any_of(kept.known().begin(), kept.known().end(),
                     [&](const KnownField& field) { return field.name == name && !field.words.empty(); });
}

// Read with the rest, and told of as not kept: its draws are plain.
bool is_read_in_vain(const Route& route, const FieldGroup& group) {
  return route.path == "/big_batch/completions" && &group == &kSamplingFields;
}

// What a route reads without telling of it would be a fault of a type; "not kept" is what others get.
TEST(Openapi, TellsOfEveryFieldThatARouteTakes) {
  std::set<const FieldGroup*> groups;
  for (const Route& route : routes())
    groups.insert(route.note->fields.all().begin(), route.note->fields.all().end());
  for (const Route& route : routes()) {
    if (route.method != "POST" || route.takes_bytes) continue;
    AdminRig rig;
    for (const FieldGroup* group : groups) {
      for (const Field& field : group->fields) {
        if (route.note->fields.find(field.name) || wrong_values(field.takes).empty()) continue;
        if (is_judged_everywhere(field.name) || is_read_in_vain(route, *group)) continue;
        const std::string given = fmt::format("\"{}\":", field.name);
        const std::string rest = valid_body(route.path);
        if (rest.find(given) != std::string::npos) continue;
        const Reply reply = rig.post(path_with(route.path, "s"),
                                     fmt::format("{{{}{}{}}}", rest, given, wrong_values(field.takes)[0]));
        const bool judged = reply.body.find(fmt::format("'{}' is ", field.name)) != std::string::npos &&
                            reply.body.find("; wanted") != std::string::npos;
        EXPECT_FALSE(judged) << route.path << " " << field.name << " " << reply.body;
      }
    }
  }
}

// "a whole number of 0 to 20", in the documents.
std::string words_of(const Takes& takes) {
  using Type = Takes::Type;
  std::string range;
  if (takes.least > -Takes::kOpen && takes.most < Takes::kOpen) {
    range = fmt::format(" of {} to {}", takes.least, takes.most);
  } else if (takes.least > -Takes::kOpen) {
    range = fmt::format(" of at least {}", takes.least);
  }
  switch (takes.type) {
    case Type::boolean:
      return "`true` or `false`";
    case Type::integer:
      return "whole number" + range;
    case Type::number:
      return "number" + range;
    case Type::seed:
      return "whole number of 0 to 2^64-1";
    case Type::text:
      return "text";
    case Type::word:
      return "one of: " + std::string(takes.words);
    case Type::texts:
      return "text or texts";
    case Type::list:
      return "list";
    case Type::numbers:
      return "numbers";
    case Type::object:
      return "object";
    case Type::any:
      break;
  }
  return {};
}

// The groups of fields, each with a line for each field.
std::string fields_section() {
  std::vector<const FieldGroup*> groups = {&kBodyFields};
  for (const Route& route : routes()) {
    for (const FieldGroup* group : route.note->fields.all()) {
      if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
    }
  }
  std::string text = "| group | field | holds | unless given | |\n|---|---|---|---|---|\n";
  for (const FieldGroup* group : groups) {
    std::string shown = fmt::format("`{}`", group->name);
    for (const Field& field : group->fields) {
      const std::string otherwise = field.otherwise.empty() ? "" : fmt::format("`{}`", field.otherwise);
      text += fmt::format("| {} | `{}` | {} | {} | {} |\n", std::exchange(shown, ""), field.name,
                          words_of(field.takes), otherwise, field.text);
    }
  }
  return text;
}

// Each route with the groups of its body and the statuses of its errors.
std::string routes_section() {
  std::string text = "| route | groups of fields | errors |\n|---|---|---|\n";
  for (const Route& route : routes()) {
    std::vector<std::string_view> groups, statuses;
    for (const FieldGroup* group : route.note->fields.all()) groups.push_back(group->name);
    for (const auto& [status, response] :
         published_operation(route).find("responses")->as_object().members()) {
      if (status != "200") statuses.push_back(status);
    }
    text += fmt::format("| `{} {}` | {} | {} |\n", route.method, path_with(route.path, "{id}"),
                        fmt::join(groups, ", "), fmt::join(statuses, " "));
  }
  return text;
}

TEST(Openapi, IsTheDocumentsListOfFieldsToo) {
  expect_section("api.md", "fields of bodies", fields_section());
  expect_section("api.md", "routes and their fields", routes_section());
}

}  // namespace
}  // namespace fulmar::testing
