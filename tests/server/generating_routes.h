// Requests to every route that makes text, and whether a mask takes a text.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "server/tool_requests.h"

namespace fulmar::testing {

// The least body with which each generating route answers, without its closing brace. A further route that
// takes JSON stands here or among those that make no text.
inline const std::map<std::string_view, std::string> kBodies = {
    {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}])"},
    {"/chat/completions", R"({"contents":["hi"])"},
    {"/openai/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}])"},
    {"/v1/completions", R"({"prompt":"x")"},
    {"/completions", R"({"prompt":["x","y"])"},
    {"/v1/responses", R"({"input":"hi")"},
    {"/v1/messages", R"({"max_tokens":9,"messages":[{"role":"user","content":"hi"}])"},
    {"/api/chat", R"({"stream":false,"messages":[{"role":"user","content":"hi"}])"},
    {"/api/generate", R"({"stream":false,"prompt":"hi")"},
    {"/completion", R"({"prompt":"x")"},
    {"/infill", R"({"input_prefix":"a","input_suffix":"b")"},
    {"/v2/chat/completions", R"({"contents":["hi"])"},
    {"/v3/chat/completions", R"({"messages":[{"role":"user","content":"hi"}])"},
    {"/v1/batch/completions", R"({"contents":["hi"])"},
    {"/big_batch/completions", R"({"contents":["hi"])"},
    {"/FIM/v1/batch-FIM", R"({"prefix":["a"],"suffix":["b"])"},
    {"/v1/advanced/fim", R"({"prefix":["a"],"suffix":["b"])"},
    {"/translate/v1/batch-translate", R"({"target_lang":"ja","text_list":["a"])"},
    {"/v1/advanced/translate", R"({"target_lang":"ja","text_list":["a"])"},
    {"/state/chat/completions", R"({"session_id":"s","contents":["hi"])"},
    {"/multi_state/chat/completions", R"({"session_id":"s","dialogue_idx":0,"contents":["hi"])"},
    {"/v1/advanced/multi_state", R"({"session_id":"s","dialogue_idx":0,"contents":["hi"])"},
};

inline const std::string kZip =
    R"({"type":"object","properties":{"zip":{"const":1}},"required":["zip"],"additionalProperties":false})";

inline bool takes(TokenMask& mask, const std::string& text) {
  for (const char byte : text) {
    const size_t id = static_cast<unsigned char>(byte) + 1u;
    const auto allowed = mask.allowed();
    const bool all = allowed.empty();
    if (!all && (id / 64 >= allowed.size() || !(allowed[id / 64] >> (id % 64) & 1))) return false;
    mask.accept(static_cast<int32_t>(id));
  }
  return true;
}

}  // namespace fulmar::testing
