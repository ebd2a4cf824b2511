// What constrains an answer, in every form that a server takes for which this one stands in: on every route
// that makes text, each form is kept or refused by name, and none is dropped.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "server/generate/constraint_fields.h"
#include "server/generating_routes.h"
#include "server/routes.h"
#include "support/document_section.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;

const std::set<std::string_view> kNoText = {"/v1/responses/input_tokens",
                                            "/v1/responses/*/cancel",
                                            "/v1/messages/count_tokens",
                                            "/api/embed",
                                            "/api/embeddings",
                                            "/api/show",
                                            "/api/pull",
                                            "/apply-template",
                                            "/state/status",
                                            "/v1/admin/state/status",
                                            "/state/delete",
                                            "/v1/admin/state/delete",
                                            "/v1/sessions/*/fork",
                                            "/loadmodel",
                                            "/removemodel",
                                            "/loadstatemodel",
                                            "/removestatemodel",
                                            "/mrss_loadstatemodel",
                                            "/mrss_set_gatingweight",
                                            "/v1/model/load",
                                            "/v1/state/upload",
                                            "/v1/state/list",
                                            "/v1/state/delete",
                                            "/v1/adapters",
                                            "/v1/load_lora_adapter",
                                            "/v1/unload_lora_adapter",
                                            "/lora-adapters",
                                            "/v1/embeddings",
                                            "/tokenize",
                                            "/detokenize",
                                            "/v1/tokens/count",
                                            "/v1/server/stop",
                                            "/v1/server/pause",
                                            "/v1/server/resume"};

// How a member asks for an answer, and one that fits; empty: the form is refused.
struct Asked {
  std::string value, answer;
};
const Asked kSchema{kZip, R"({"zip":1})"}, kRegex{R"("a+b")", "aab"}, kChoice{R"(["yes","no"])", "no"},
    kFormat{R"({"type":"json_schema","json_schema":{"schema":)" + kZip + "}}", R"({"zip":1})"},
    kOutput{R"({"type":"json_schema","schema":)" + kZip + "}", R"({"zip":1})"},
    kAnyObject{"true", R"({"b":[1]})"}, kGrammar{R"("root ::= \"yes\" | \"no\"")", "no"},
    kRefused{R"("x")", ""};
const std::map<std::string_view, Asked> kAsked = {
    {"response_format", kFormat},
    {"text.format", kOutput},
    {"functions", {R"([{"name":"f"}])", ""}},
    {"function_call", {R"({"name":"f"})", ""}},
    {"output_config.format", kOutput},
    {"output_format", kOutput},
    {"format", kSchema},
    {"json_schema", kSchema},
    {"grammar", kGrammar},
    {"grammar_lazy", {"true", ""}},
    {"grammar_triggers", kRefused},
    {"regex", kRegex},
    {"ebnf", kGrammar},
    {"structural_tag", kRefused},
    {"guided_json", kSchema},
    {"guided_regex", kRegex},
    {"guided_choice", kChoice},
    {"guided_grammar", kGrammar},
    {"guided_json_object", kAnyObject},
    {"guided_whitespace_pattern", kRefused},
    {"structured_outputs.json", kSchema},
    {"structured_outputs.regex", kRegex},
    {"structured_outputs.choice", kChoice},
    {"structured_outputs.grammar", kGrammar},
    {"structured_outputs.json_object", kAnyObject},
    {"structured_outputs.structural_tag", kRefused},
    {"structured_outputs.whitespace_pattern", kRefused},
    {"structured_outputs.disable_additional_properties", {"true", ""}}};
// Members that constrain nothing by themselves.
const std::set<std::string_view> kAsides = {"structured_outputs.disable_any_whitespace"};

std::string member(std::string_view name, const std::string& value) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return "\"" + std::string(name) + "\":" + value;
  return "\"" + std::string(name.substr(0, dot)) + "\":{\"" + std::string(name.substr(dot + 1)) +
         "\":" + value + "}";
}

TEST(Constraints, EachGeneratingRouteIsTried) {
  for (const Route& route : routes()) {
    if (route.method != "POST") continue;
    EXPECT_NE(kBodies.contains(route.path), kNoText.contains(route.path)) << route.path;
  }
}

TEST(Constraints, EachFormIsTried) {
  for (const ConstraintField& field : constraint_fields()) {
    EXPECT_NE(kAsked.contains(field.name), kAsides.contains(field.name)) << field.name;
  }
}

TEST(Constraints, EachFormIsKeptOrRefusedByNameOnEachRoute) {
  ServerRig rig;
  for (const auto& [path, body] : kBodies) {
    for (const auto& [name, asked] : kAsked) {
      const size_t before = rig.engine.asks().size();
      const Reply reply = rig.post(std::string(path), body + "," + member(name, asked.value) + "}");
      const auto asks = rig.engine.asks();
      if (reply.status == 400) {
        EXPECT_THAT(reply.body, HasSubstr("'" + std::string(name) + "'")) << path;
        EXPECT_EQ(asks.size(), before) << path << " " << name;
        continue;
      }
      EXPECT_NE(asked.answer, "") << path << " does not refuse " << name;
      EXPECT_EQ(reply.status, 200) << path << " " << name << ": " << reply.body;
      ASSERT_GT(asks.size(), before) << path << " " << name << ": " << reply.body;
      ASSERT_TRUE(asks.back().mask) << path << " drops " << name;
      const auto mask = asks.back().mask->fork();
      EXPECT_FALSE(takes(*mask->fork(), "Hello")) << path << " " << name;
      EXPECT_TRUE(takes(*mask, asked.answer)) << path << " " << name;
    }
  }
}

TEST(Constraints, AreWhatTheDocumentSays) {
  expect_section("structured-output.md", "members", constraint_fields_table());
}

TEST(Constraints, TwoAtOnceAreRefusedByBothNamesOnEachRoute) {
  ServerRig rig;
  for (const auto& [path, body] : kBodies) {
    const Reply reply = rig.post(std::string(path), body + R"(,"guided_choice":["a"],"regex":"b"})");
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_THAT(reply.body, AllOf(HasSubstr("'guided_choice'"), HasSubstr("'regex'"))) << path;
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(Constraints, FunctionsAreOfferedOrRefusedByNameOnEachRoute) {
  ServerRig rig;
  for (const auto& [path, body] : kBodies) {
    const bool flat = path == "/v1/responses", anthropic = path == "/v1/messages";
    const std::string tools =
        flat ? R"("tools":[{"type":"function","name":"f"}],"tool_choice":"required")"
        : anthropic
            ? R"("tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"})"
            : R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required")";
    const size_t before = rig.engine.asks().size();
    const Reply reply = rig.post(std::string(path), body + "," + tools + "}");
    if (reply.status == 400) {
      EXPECT_THAT(reply.body, HasSubstr("'tools'")) << path;
      continue;
    }
    EXPECT_EQ(reply.status, 200) << path << reply.body;
    const auto asks = rig.engine.asks();
    ASSERT_GT(asks.size(), before) << path;
    EXPECT_TRUE(asks.back().mask) << path;
  }
}

TEST(Constraints, WhatAsksForNothingIsNone) {
  ServerRig rig;
  for (const char* nothing :
       {R"("grammar":null)", R"("json_schema":null)", R"("guided_choice":null)", R"("function_call":"none")",
        R"("functions":[])", R"("tools":[])", R"("response_format":{"type":"text"})", R"("format":"")",
        R"("grammar":"")", R"("structured_outputs":{"json":null})", R"("structured_outputs":{"x":null})",
        R"("text":{})"}) {
    for (const auto& [path, body] : kBodies) {
      EXPECT_EQ(rig.post(std::string(path), body + "," + nothing + "}").status, 200) << path << nothing;
      EXPECT_FALSE(rig.last_ask().mask) << path << nothing;
    }
  }
}

// One route of each API that reads a body in its own way.
constexpr const char* kFamilies[] = {"/v1/chat/completions", "/v1/responses",
                                     "/v1/messages",         "/api/chat",
                                     "/completion",          "/v2/chat/completions"};

// Values that say outright that nothing is asked for.
bool says_none(const ConstraintField& field, std::string_view value) {
  const bool flag = value == "false" || value == "true";
  if (field.name == "functions" || field.name == "function_call" || field.name == "grammar_triggers") {
    return value == "[]";
  }
  if (kAsides.contains(field.name)) return flag;
  const std::string& asked = kAsked.at(field.name).value;
  const bool may_be_empty = field.name == "format" || field.name == "grammar";
  return (may_be_empty && value == R"("")") || (asked == "true" && value == "false");
}

TEST(Constraints, EmptyAndWrongValuesAreKeptOrRefusedByName) {
  ServerRig rig;
  for (const char* path : kFamilies) {
    for (const ConstraintField& field : constraint_fields()) {
      for (const char* value :
           {R"("")", "[]", "{}", "7", R"("x")", R"([""])", "[[]]", "[7]", "true", "false", R"({"type":""})",
            R"({"type":"text","schema":{}})", R"({"type":"text","json_schema":{"schema":{}}})",
            R"({"type":"json_object","schema":""})", R"({"type":"json_object","json_schema":{"schema":{}}})",
            R"({"type":"json_schema","schema":{},"json_schema":{"schema":{}}})",
            R"({"type":"json_schema","schema":{},"strict":"very"})"}) {
        if (says_none(field, value)) continue;
        const size_t before = rig.engine.asks().size();
        const std::string sent = member(field.name, value);
        const Reply reply = rig.post(path, kBodies.at(path) + "," + sent + "}");
        const auto asks = rig.engine.asks();
        if (reply.status == 400) {
          EXPECT_THAT(reply.body, HasSubstr("'" + std::string(field.name))) << path << sent;
          EXPECT_EQ(asks.size(), before) << path << sent;
          continue;
        }
        EXPECT_EQ(reply.status, 200) << path << sent << reply.body;
        ASSERT_GT(asks.size(), before) << path << sent;
        ASSERT_TRUE(asks.back().mask) << path << " drops " << sent;
        EXPECT_FALSE(takes(*asks.back().mask->fork(), "Hello")) << path << sent;
      }
    }
  }
}

// All of them but those that are refused whatever they say.
std::vector<std::string_view> kept_members() {
  std::vector<std::string_view> names;
  for (const auto& [name, asked] : kAsked) {
    if (!asked.answer.empty()) names.push_back(name);
  }
  return names;
}

TEST(Constraints, AnyTwoAreRefusedByBothNames) {
  ServerRig rig;
  for (const std::string_view one : kept_members()) {
    for (const std::string_view other : kept_members()) {
      if (one >= other) continue;
      std::string first = member(one, kAsked.at(one).value), second = member(other, kAsked.at(other).value);
      const size_t dot = one.find('.');
      if (dot != std::string_view::npos && one.substr(0, dot) == other.substr(0, dot)) {
        first.pop_back();  // both in one object
        second.erase(0, second.find('{') + 1);
      }
      const Reply reply = rig.post("/v1/completions", R"({"prompt":"x",)" + first + "," + second + "}");
      EXPECT_EQ(reply.status, 400) << first << second;
      EXPECT_THAT(reply.body,
                  AllOf(HasSubstr("'" + std::string(one) + "'"), HasSubstr("'" + std::string(other) + "'")));
    }
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(Constraints, OneGivenTwiceIsRefusedByName) {
  ServerRig rig;
  const auto refused = [&](const std::string& path, const std::string& more, std::string_view name) {
    const Reply reply = rig.post(path, kBodies.at(path) + "," + more + "}");
    EXPECT_EQ(reply.status, 400) << path << more;
    EXPECT_THAT(reply.body, HasSubstr("'" + std::string(name) + "'")) << path << more;
  };
  for (const std::string path : kFamilies) {
    for (const std::string_view name : kept_members()) {
      const std::string once = member(name, kAsked.at(name).value);
      const std::string_view top = name.substr(0, name.find('.')), last = name.substr(name.find('.') + 1);
      refused(path, once + "," + once, top);
      if (top != name) {
        const std::string inner = "\"" + std::string(last) + "\":" + kAsked.at(name).value;
        refused(path, "\"" + std::string(top) + "\":{" + inner + "," + inner + "}", last);
      }
    }
    refused(path, R"("guided_json":{"type":"object","type":"string"})", "type");
    refused(path, R"("guided_json":"{\"type\":\"object\",\"type\":\"string\"}")", "guided_json");
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(Constraints, UsualStopsEndNoConstrainedAnswer) {
  ServerRig rig;
  size_t usual = 0;
  for (const auto& [path, body] : kBodies) {
    EXPECT_EQ(rig.post(std::string(path), body + "}").status, 200) << path;
    const StopRules free = rig.last_ask().stop;
    usual += free.texts.size();
    EXPECT_EQ(rig.post(std::string(path), body + R"(,"guided_regex":"a+"})").status, 200) << path;
    const StopRules held = rig.last_ask().stop;
    EXPECT_TRUE(held.texts.empty()) << path;
    EXPECT_EQ(held.ids, std::vector<int32_t>{*rig.model->end_token}) << path;
  }
  EXPECT_GT(usual, 0u);
}

TEST(Constraints, StopsOfTheRequestEndTextsButNoCalls) {
  ServerRig rig;
  const auto stops_with = [&](const std::string& path, const std::string& more, bool told) {
    const Reply reply = rig.post(path, kBodies.at(path) + "," + more + "}");
    EXPECT_EQ(reply.status, 200) << path << reply.body;
    EXPECT_EQ(reply.headers.find("Fulmar-Warning") != nullptr, told) << path << more;
    return rig.last_ask().stop;
  };
  const std::vector<std::string> asked{"b"};
  const std::string regex = R"("guided_regex":"a+b*",)", own = R"("stop_tokens":["b",98])";
  EXPECT_EQ(stops_with("/v1/chat/completions", regex + R"("stop":["b"])", false).texts, asked);
  EXPECT_EQ(stops_with("/v1/messages", regex + R"("stop_sequences":["b"])", false).texts, asked);
  EXPECT_EQ(stops_with("/v1/completions", regex + own, false).texts, asked);
  EXPECT_EQ(rig.last_ask().stop.ids, (std::vector<int32_t>{*rig.model->end_token, 98}));
  for (const char* beside :
       {R"("tool_choice":"required",)", R"("response_format":{"type":"json_object"},)"}) {
    const StopRules none = stops_with("/v1/chat/completions", beside + std::string(kTools) + "," + own, true);
    EXPECT_TRUE(none.texts.empty());
    EXPECT_EQ(none.ids, std::vector<int32_t>{*rig.model->end_token});
  }
}

TEST(Constraints, BlanksOfATextAreGivenAsTheyAre) {
  const std::string text = " \n a ", quoted = R"(" \n a ")";
  const std::pair<std::string, std::string> kForms[] = {{"guided_regex", R"("[ \n]+a ")"},
                                                        {"guided_choice", R"([" \n a "])"},
                                                        {"grammar", R"("root ::= \" \\n a \"")"}};
  ServerRig rig({}, obeying(text));
  for (const auto& [path, body] : kBodies) {
    for (const auto& [name, value] : kForms) {
      const Reply reply =
          rig.post(std::string(path), body + R"(,"chunk_size":99,")" + name + "\":" + value + "}");
      EXPECT_THAT(reply.body, HasSubstr(quoted)) << path << name;
    }
  }
  ServerRig thinking({}, obeying(">hm</think>" + text));
  for (const auto& [name, value] : kForms) {
    const Reply reply =
        thinking.post("/v1/chat/completions", chat(R"("enable_think":true,")" + name + "\":" + value));
    EXPECT_THAT(reply.body, HasSubstr(R"("reasoning_content":"hm","content":)" + quoted)) << name;
  }
}

TEST(Constraints, UnknownMembersOfStructuredOutputsAreRefused) {
  const ServerRig rig;
  const Reply reply = rig.post("/v1/completions", R"({"prompt":"x","structured_outputs":{"jsn":{}}})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("structured_outputs.jsn"));
}

TEST(Constraints, TextsBesideFunctionsAreRefused) {
  const ServerRig rig;
  const Reply reply = rig.post("/v1/chat/completions", chat(std::string(R"("guided_regex":"a",)") + kTools));
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, AllOf(HasSubstr("'guided_regex'"), HasSubstr("'tools'")));
}

TEST(Constraints, SchemasMayBeTexts) {
  ServerRig rig({}, obeying("5"));
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x","json_schema":"{\"const\":5}"})").status, 200);
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x","json_schema":"{"})").status, 400);
}

TEST(Constraints, WhiteSpaceIsAsAsked) {
  const auto takes_spaced = [](const std::string& more, const std::string& text) {
    ServerRig rig;
    EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x","guided_json":)" + kZip + more + "}").status, 200);
    return takes(*rig.last_ask().mask->fork(), text);
  };
  EXPECT_TRUE(takes_spaced("", R"({"zip": 1})"));
  EXPECT_FALSE(takes_spaced("", R"({"zip":   1})"));
  EXPECT_FALSE(takes_spaced(R"(,"whitespace":"none")", R"({"zip": 1})"));
  EXPECT_TRUE(takes_spaced(R"(,"whitespace":"flexible")", R"({"zip":   1})"));
  const ServerRig rig;
  const Reply wrong = rig.post("/v1/completions", R"({"prompt":"x","whitespace":"much"})");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.body, HasSubstr("'whitespace'"));
}

}  // namespace
}  // namespace fulmar::testing
