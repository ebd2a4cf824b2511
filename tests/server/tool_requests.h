// Requests with functions, and an engine that keeps to a row's mask.
#pragma once

#include <string>

#include "server/server_rig.h"

namespace fulmar::testing {

inline constexpr const char* kTools =
    R"("tools":[{"type":"function","function":{"name":"add","parameters":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}},{"type":"function","function":{"name":"now"}}])";

inline std::string chat(const std::string& more) {
  return R"({"messages":[{"role":"user","content":"hi"}],)" + more + "}";
}

// Says the byte tokens that the row's mask allows, in the order of `wanted`; stops where it may not go on.
inline ServerRig::Play obeying(std::string wanted) {
  return [wanted](const Ask& ask) {
    Script script;
    EXPECT_TRUE(ask.mask);
    for (const char byte : wanted) {
      const size_t id = static_cast<unsigned char>(byte) + 1u;
      const auto allowed = ask.mask->allowed();
      if (id / 64 >= allowed.size() || !(allowed[id / 64] >> (id % 64) & 1)) break;
      ask.mask->accept(static_cast<int32_t>(id));
      script.pieces.emplace_back(1, byte);
    }
    EXPECT_EQ(ask.mask->complete(), script.pieces.size() == wanted.size());
    return script;
  };
}

inline const std::string kCall = R"(<tool_call>{"name":"add","arguments":{"x":1}}</tool_call>)";

}  // namespace fulmar::testing
