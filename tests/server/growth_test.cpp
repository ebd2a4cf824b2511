// How the work of reading a request grows with what it sends: every field that holds a client's text, by
// every pattern that some reader treats in its own way, at sizes that double. A reader that takes the square
// of a text's length shows here, whoever writes it, as long as it pays its meter (base/meter.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>

#include "net/json_writer.h"
#include "server/server_rig.h"
#include "text/prompt_template.h"
#include "text/world_tokenizer.h"

namespace fulmar::testing {
namespace {

constexpr size_t kSizes[] = {size_t{64} << 10, size_t{128} << 10, size_t{256} << 10, size_t{512} << 10};
constexpr double kMostGrowth = 2.2;     // of the steps for a text twice as long
constexpr double kMostSteps = 40;       // for a byte
constexpr double kMostElsewhere = 1e6;  // steps of one request on an IO or a session thread

// Repeated to the size. Marks of templates, of formats and of the tokens' texts, and what escapes to more.
const std::string kPatterns[] = {
    "a",
    " ",
    "\n",
    "\r\n",
    "\t",
    std::string(1, '\0'),
    "\"",
    "\\",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "$",
    "7",
    ":",
    "\u273F",
    "<think>",
    "</think>",
    "User:",
    "\n\nUser:",
    "```json\n",
    "<tool_call>",
    "</tool_call>",
    "**Tool Call:**\n",
    "\u00e9",
    "\U0001F600",
    "ab ",
    "&amp;",
};

// A request in which a text goes: a whole body with "@" in the place of the text, as JSON.
struct Reader {
  const char* path;
  const char* body;
};
constexpr Reader kReaders[] = {
    {"/v1/chat/completions", R"({"messages":[{"role":"user","content":@}]})"},
    {"/v1/chat/completions", R"({"messages":[{"role":"user","content":[{"type":"text","text":@}]}]})"},
    {"/v1/chat/completions", R"({"messages":[{"role":"system","content":@},{"role":"user","content":"x"}]})"},
    {"/v1/chat/completions",
     R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":@}]})"},
    {"/v1/chat/completions", R"({"messages":[{"role":@,"content":"x"}]})"},
    {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"x","name":@}]})"},
    {"/v1/chat/completions", R"({"system":@,"messages":[{"role":"user","content":"x"}]})"},
    {"/v1/chat/completions", R"({"user_name":@,"messages":[{"role":"user","content":"x"}]})"},
    {"/v1/chat/completions", R"({"model":@,"messages":[{"role":"user","content":"x"}]})"},
    {"/v1/chat/completions", R"({"stop":@,"messages":[{"role":"user","content":"x"}]})"},
    {"/v1/chat/completions", R"({"stop":["a",@],"messages":[{"role":"user","content":"x"}]})"},
    {"/v1/chat/completions", R"({"think_type":@,"messages":[{"role":"user","content":"x"}]})"},
    {"/v1/chat/completions",
     R"({"prediction":{"type":"content","content":@},"messages":[{"role":"user","content":"x"}]})"},
    {"/v1/chat/completions",
     R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":@}}]},{"role":"tool","tool_call_id":"1","content":"y"}]})"},
    {"/v1/chat/completions",
     R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":@}]})"},
    {"/v1/chat/completions",
     R"({"tools":[{"type":"function","function":{"name":"f","description":@}}],"messages":[{"role":"user","content":"x"}]})"},
    {"/v1/chat/completions",
     R"({"params":{"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"const":@}}}},"messages":[{"role":"user","content":"x"}]})"},
    {"/v1/chat/completions",
     R"({"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"string","pattern":@}}},"messages":[{"role":"user","content":"x"}]})"},
    {"/v1/chat/completions", R"({"contents":[@],"max_tokens":1})"},
    {"/v1/completions", R"({"prompt":@})"},
    {"/v1/completions", R"({"prompt":["x",@]})"},
    {"/v1/completions", R"({"prompt":@,"suffix":"x"})"},
    {"/v1/completions", R"({"prompt":"x","suffix":@})"},
    {"/v1/completions", R"({"prompt":"x","stop_tokens":[@]})"},
    {"/v1/responses", R"({"input":@})"},
    {"/v1/responses", R"({"input":"x","instructions":@})"},
    {"/v1/responses", R"({"input":[{"type":"reasoning","x":@},{"role":"user","content":"x"}]})"},
    {"/v1/responses", R"({"input":[{"role":"user","content":[{"type":"input_text","text":@}]}]})"},
    {"/v1/responses", R"({"input":"x","previous_response_id":@})"},
    {"/v1/responses",
     R"({"input":"x","text":{"format":{"type":"json_schema","name":"x","schema":{"enum":[@]}}}})"},
    {"/v1/messages", R"({"max_tokens":1,"messages":[{"role":"user","content":@}]})"},
    {"/v1/messages", R"({"max_tokens":1,"system":@,"messages":[{"role":"user","content":"x"}]})"},
    {"/api/chat", R"({"stream":false,"messages":[{"role":"user","content":@}]})"},
    {"/api/generate", R"({"stream":false,"prompt":@})"},
    {"/api/generate", R"({"stream":false,"prompt":"x","system":@})"},
    {"/api/generate", R"({"stream":false,"prompt":"x","suffix":@})"},
    {"/api/generate", R"({"stream":false,"prompt":"x","options":{"stop":[@]}})"},
    {"/completion", R"({"prompt":@})"},
    {"/infill", R"({"input_prefix":@,"input_suffix":"x"})"},
    {"/infill", R"({"input_prefix":"x","input_suffix":@})"},
    {"/apply-template", R"({"messages":[{"role":"user","content":@}]})"},
    {"/v2/chat/completions", R"({"contents":[@]})"},
    {"/FIM/v1/batch-FIM", R"({"prefix":[@],"suffix":["x"]})"},
    {"/FIM/v1/batch-FIM", R"({"prefix":["x"],"suffix":[@]})"},
    {"/translate/v1/batch-translate", R"({"source_lang":"en","target_lang":"zh-CN","text_list":[@]})"},
    {"/translate/v1/batch-translate", R"({"source_lang":@,"target_lang":"zh-CN","text_list":["x"]})"},
    {"/state/chat/completions", R"({"session_id":"s","contents":[@]})"},
    {"/state/chat/completions", R"({"session_id":@,"contents":["x"]})"},
    {"/multi_state/chat/completions", R"({"session_id":"t","contents":[@]})"},
    {"/state/delete", R"({"session_id":@})"},
    {"/v1/embeddings", R"({"input":@})"},
    {"/tokenize", R"({"content":@})"},
    {"/v1/tokens/count", R"({"text":@})"},
    {"/v1/server/pause", R"({"request_id":@})"},
    {"/v1/server/resume", R"({"request_id":@})"},
};

std::string body_of(const Reader& reader, const std::string& pattern, size_t size) {
  std::string text;
  while (text.size() + pattern.size() <= size) text += pattern;
  std::string body = reader.body;
  return body.replace(body.find('@'), 1, json_quoted(text));
}

// All bytes, the patterns and long runs, so that the longest match is looked for far ahead.
Vocabulary vocabulary() {
  Vocabulary made;
  std::set<std::string> known;
  const auto add = [&](std::string bytes) {
    if (!known.insert(bytes).second) return;
    made.entries.push_back({static_cast<int32_t>(made.entries.size()) + 1, std::move(bytes)});
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (const std::string& pattern : kPatterns) add(pattern);
  for (size_t length = 2; length <= 16; length *= 2) {
    for (const char c : {' ', 'a', '\n', '7'}) add(std::string(length, c));
  }
  return made;
}

class GrowthRig {
 public:
  GrowthRig()
      : tokenizer_(vocabulary(), false),
        rig_(
            {}, [](const Ask&) { return Script{.pieces = {"x"}}; },
            [this](ServedModel& model) {
              model.tokenizer = &tokenizer_;
              model.prompt_template = find_prompt_template("g1h");
            }) {}

  // Steps that the pool took for the request.
  double steps_of(const std::string& path, const std::string& body) {
    const double before = settled_steps();
    const Reply answer = rig_.post(path, body);
    EXPECT_LT(answer.status, 500) << path << answer.body.substr(0, 200);
    return settled_steps() - before;
  }

  double figure(const std::string& name) { return figure_in(rig_.get("/metrics").body, name); }

 private:
  static double figure_in(const std::string& text, const std::string& name) {
    const size_t at = text.find("\n" + name + " ");
    EXPECT_NE(at, std::string::npos) << name;
    return std::stod(text.substr(at + name.size() + 2));
  }

  // The pool's steps once no request but the one that asks is held: they are counted behind the answer.
  double settled_steps() {
    while (true) {
      const std::string text = rig_.get("/metrics").body;
      if (figure_in(text, "fulmar_requests_held") == 1) {
        return figure_in(text, "fulmar_request_steps_total{threads=\"pool\"}");
      }
      std::this_thread::yield();
    }
  }

  WorldTokenizer tokenizer_;
  ServerRig rig_;
};

TEST(Growth, OfTheWorkBeforeTheEngineFollowsTheLength) {
  GrowthRig rig;
  for (const Reader& reader : kReaders) {
    for (const std::string& pattern : kPatterns) {
      double last = 0;
      for (const size_t size : kSizes) {
        const std::string body = body_of(reader, pattern, size);
        const double steps = rig.steps_of(reader.path, body);
        const std::string what =
            fmt::format("{} {} of {} at {} bytes", reader.path, reader.body, json_quoted(pattern), size);
        if (last > 0) {
          EXPECT_LE(steps, kMostGrowth * last) << what;
        }
        EXPECT_LE(steps, kMostSteps * static_cast<double>(body.size())) << what;
        last = steps;
      }
    }
  }
  for (const char* threads : {"io", "sessions"}) {
    const std::string name = fmt::format("fulmar_largest_request_steps{{threads=\"{}\"}}", threads);
    EXPECT_LE(rig.figure(name), kMostElsewhere) << threads;
  }
}

}  // namespace
}  // namespace fulmar::testing
