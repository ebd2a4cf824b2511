// Every known field on every generating route: kept, refused by name, or told of. None is dropped in silence.
#include "server/generate/kept_fields.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "net/json.h"
#include "server/generating_routes.h"
#include "server/routes.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;

// A value that asks for something.
std::string asking_value(const KnownField& field) {
  if (!field.words.empty())
    return "\"" + std::string(field.words.substr(1, field.words.find(' ', 1) - 1)) + "\"";
  if (field.neutral == "true") return "false";
  return field.neutral.starts_with('"') ? R"("other")" : "7";
}

// ,"a":VALUE or ,"a":{"b":VALUE}
std::string member(std::string_view name, const std::string& value) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return ",\"" + std::string(name) + "\":" + value;
  return ",\"" + std::string(name.substr(0, dot)) + "\":{\"" + std::string(name.substr(dot + 1)) +
         "\":" + value + "}";
}

std::string warning_of(const Reply& reply) {
  const std::string* header = reply.headers.find("Fulmar-Warning");
  return header ? *header : std::string();
}

// Each known field that the route does not keep and its body does not hold.
template <class Use>
void each_unkept(std::string_view path, const std::string& body, const Use& use) {
  const JsonValue parsed = *parse_json(body + "}");
  const KeptFields fields(routes());
  for (const KnownField& field : fields.known()) {
    const bool sent = parsed.find(field.name.substr(0, field.name.find('.'))) != nullptr;
    if (!sent && !fields.keeps(path, parsed, field.name)) use(field);
  }
}

TEST(KeptFields, NoneIsDroppedInSilence) {
  ServerRig rig;
  for (const auto& [path, body] : kBodies) {
    each_unkept(path, body, [&, &path = path, &body = body](const KnownField& field) {
      const Reply reply = rig.post(std::string(path), body + member(field.name, asking_value(field)) + "}");
      const std::string shown = "'" + std::string(field.name) + "'";
      // Inputs that decide what a shared path is are ambiguous instead.
      if (reply.status == 400) {
        EXPECT_THAT(reply.body, HasSubstr(shown)) << path;
        return;
      }
      EXPECT_EQ(reply.status, 200) << path << " " << field.name << " " << reply.body;
      EXPECT_NE(field.way, Unkept::refused) << path << " " << field.name;
      if (field.way == Unkept::told) {
        EXPECT_THAT(warning_of(reply), HasSubstr(shown)) << path;
      }
    });
  }
}

TEST(KeptFields, ThatAskForNothingAreTaken) {
  ServerRig rig;
  for (const auto& [path, body] : kBodies) {
    std::string all = body;
    each_unkept(path, body, [&](const KnownField& field) {
      if (field.name.find('.') != std::string_view::npos) return;
      all += member(field.name, field.neutral.empty() ? "null" : std::string(field.neutral));
    });
    const Reply reply = rig.post(std::string(path), all + "}");
    EXPECT_EQ(reply.status, 200) << path << reply.body;
    EXPECT_EQ(warning_of(reply), "") << path;
  }
}

TEST(KeptFields, KeysThatNobodyKnowsAreToldOf) {
  ServerRig rig;
  for (const auto& [path, body] : kBodies) {
    const Reply reply = rig.post(std::string(path), body + R"(,"nobody_knows_this":7})");
    EXPECT_EQ(reply.status, 200) << path << reply.body;
    EXPECT_THAT(warning_of(reply), HasSubstr("not known and ignored: 'nobody_knows_this'")) << path;
  }
}

TEST(KeptFields, ManyUnknownKeysMakeAShortWarning) {
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}])";
  std::string body = chat + ",\"" + std::string(1000, 'y') + "\":1";
  for (int i = 0; i < 1000; ++i) body += member("x" + std::to_string(i), "1");
  const UnkeptFields found = KeptFields(routes()).check("/v1/chat/completions", *parse_json(body + "}"));
  ASSERT_EQ(found.warnings.size(), 1U);
  EXPECT_EQ(
      found.warnings[0],
      "not known and ignored: a key of 1000 bytes, 'x0', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6' and 993 more");
}

TEST(KeptFields, ChoiceOfToolsIsRefusedWhereNoneAreRead) {
  ServerRig rig;
  for (const std::string path : {"/v1/completions", "/completion", "/infill", "/api/generate",
                                 "/v1/batch/completions", "/translate/v1/batch-translate"}) {
    const std::string& body = kBodies.at(path);
    const Reply reply = rig.post(path, body + R"(,"tool_choice":"required"})");
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_THAT(reply.body, HasSubstr("'tool_choice'")) << path;
    EXPECT_EQ(rig.post(path, body + R"(,"tool_choice":"auto"})").status, 200) << path;
  }
}

TEST(KeptFields, WordsThatNobodyHasAreRefused) {
  ServerRig rig;
  for (const auto& [path, body] : kBodies) {
    each_unkept(path, body, [&, &path = path, &body = body](const KnownField& field) {
      if (field.words.empty()) return;
      const Reply reply = rig.post(std::string(path), body + member(field.name, R"("foo")") + "}");
      EXPECT_EQ(reply.status, 400) << path << " " << field.name;
      EXPECT_THAT(reply.body, HasSubstr("foo")) << path;
      EXPECT_THAT(reply.body, HasSubstr("wanted one of")) << path;
    });
  }
}

TEST(KeptFields, KnowAllFieldsOfAllGeneratingRoutes) {
  const KeptFields fields(routes());
  for (const auto& [path, body] : kBodies) {
    for (const FieldGroup* group : find_route("POST", std::string(path)).route->note->fields.all()) {
      for (const Field& declared : group->fields) {
        const bool known = std::any_of(fields.known().begin(), fields.known().end(),
                                       [&](const KnownField& field) { return field.name == declared.name; });
        EXPECT_TRUE(known) << path << " " << declared.name;
      }
    }
  }
}

TEST(KeptFields, LieInParamsAndOptionsToo) {
  ServerRig rig;
  const Reply params = rig.post("/v2/chat/completions", R"({"contents":["x"],"params":{"n":3}})");
  EXPECT_EQ(params.status, 400);
  EXPECT_THAT(params.body, HasSubstr("'params.n' is number 3"));
  const Reply options = rig.post(
      "/api/chat", R"({"stream":false,"messages":[{"role":"user","content":"x"}],"options":{"num_ctx":9}})");
  EXPECT_THAT(warning_of(options), HasSubstr("'options.num_ctx'"));
}

TEST(KeptFields, TwoSpellingsOfOneThingAreAlike) {
  ServerRig rig;
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}],)";
  const Reply differ = rig.post("/v1/chat/completions", chat + R"("alpha_presence":0,"presence_penalty":2})");
  EXPECT_EQ(differ.status, 400);
  EXPECT_THAT(differ.body, HasSubstr("'alpha_presence' is number 0, but 'presence_penalty' is number 2"));
  EXPECT_EQ(rig.post("/v1/chat/completions", chat + R"("alpha_presence":2.0,"presence_penalty":2})").status,
            200);
  EXPECT_EQ(rig.post("/completion", R"({"prompt":"x","n_predict":3,"max_tokens":4})").status, 400);
  EXPECT_EQ(rig.post("/v1/responses", R"({"input":"x","max_output_tokens":3,"max_tokens":4})").status, 400);
  EXPECT_TRUE(rig.engine.asks().size() == 1);
}

TEST(KeptFields, ValuesOutOfRangeNameBoth) {
  ServerRig rig;
  const struct {
    const char *path, *body, *named;
  } kCases[] = {
      {"/state/chat/completions", R"({"session_id":"s","contents":["x"],"on_disconnect":"bogus"})", "bogus"},
      {"/v1/responses", R"({"input":"x","include":["foo"]})", "foo"},
      {"/v3/chat/completions", R"({"contents":["x"],"messages":[{"role":"user","content":"x"}]})",
       "'messages'"},
      {"/v1/embeddings", R"({"input":"x","session_id":"s"})", "'session_id'"},
  };
  for (const auto& each : kCases) {
    const Reply reply = rig.post(each.path, each.body);
    EXPECT_EQ(reply.status, 400) << each.path << reply.body;
    EXPECT_THAT(reply.body, HasSubstr(each.named));
  }
}

}  // namespace
}  // namespace fulmar::testing
