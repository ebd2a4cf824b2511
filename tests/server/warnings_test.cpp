// What of a request is not kept though it is answered, and how that is told.
#include <gmock/gmock.h>

#include "server/generating_routes.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;

// A format of which one keyword cannot be kept, and its neighbour can.
std::string loosened_format(bool strict) {
  return std::string(R"("response_format":{"type":"json_schema","json_schema":{"strict":)") +
         (strict ? "true" : "false") +
         R"(,"schema":{"type":"object","properties":{"a":{"type":"string","pattern":"(a)\\1","maxLength":2}},)"
         R"("required":["a"]}}})";
}

// The last line of an answer or of a stream that holds JSON.
std::string last_json(const std::string& body) {
  const size_t end = body.find_last_of('}');
  const size_t from = body.find_last_of('\n', end);
  return body.substr(from == std::string::npos ? 0 : from + 1, end - from);
}

std::string warning_of(const Reply& reply) {
  const std::string* header = reply.headers.find("Fulmar-Warning");
  return header ? *header : std::string();
}

TEST(Warnings, WhatIsLoosenedIsToldOnEachRoute) {
  ServerRig rig;
  for (const auto& [path, body] : kBodies) {
    for (const char* stream : {"", R"(,"stream":true)"}) {
      std::string asked = body + "," + loosened_format(false) + stream + "}";
      if (*stream != 0 && asked.find(R"("stream":false,)") != std::string::npos) continue;
      const Reply reply = rig.post(std::string(path), asked);
      EXPECT_EQ(reply.status, 200) << path << reply.body;
      EXPECT_THAT(warning_of(reply), HasSubstr("'pattern' at '#/properties/a'")) << path << stream;
      const bool anthropic = path == "/v1/messages";
      EXPECT_EQ(last_json(reply.body).find(R"("warnings":["schema keyword 'pattern')") == std::string::npos,
                anthropic)
          << path << stream << reply.body;
      const auto mask = rig.last_ask().mask->fork();
      EXPECT_TRUE(takes(*mask->fork(), R"({"a":"xy"})")) << path;
      EXPECT_FALSE(takes(*mask, R"({"a":"xyz"})")) << path;
    }
  }
}

TEST(Warnings, StrictFormatsAreRefusedInstead) {
  ServerRig rig;
  for (const auto& [path, body] : kBodies) {
    const Reply reply = rig.post(std::string(path), body + "," + loosened_format(true) + "}");
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_THAT(reply.body, HasSubstr("'pattern' at '#/properties/a'")) << path;
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(Warnings, ThereAreNoneWhereAllIsKept) {
  const ServerRig rig;
  const Reply reply = rig.post("/v1/completions", R"({"prompt":"x","guided_json":)" + kZip + "}");
  EXPECT_EQ(warning_of(reply), "");
  EXPECT_EQ(reply.body.find("warnings"), std::string::npos);
}

TEST(Warnings, FunctionsThatAreNotStrictAreLoosenedUnderTheirName) {
  const std::string tools =
      R"("tool_choice":"required","parallel_tool_calls":false,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",)"
      R"("properties":{"a":{"type":"string","pattern":"(a)\\1"},"n":{"const":1}},"required":["n"]}}}])";
  ServerRig rig({}, obeying(R"(<tool_call>{"name":"f","arguments":{"n":1}}</tool_call>)"));
  const Reply reply = rig.post("/v1/chat/completions", chat(tools));
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_THAT(warning_of(reply), HasSubstr("function 'f': schema keyword 'pattern'"));
  // From what is remembered, too.
  EXPECT_EQ(warning_of(rig.post("/v1/chat/completions", chat(tools))), warning_of(reply));
}

}  // namespace
}  // namespace fulmar::testing
