// All routes that make text, with every way in which a row can end: what the client is told, and what is
// found afterwards.
#include <gmock/gmock.h>

#include <future>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/generating_routes.h"
#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr FinishReason kEnds[] = {FinishReason::stop,   FinishReason::length,   FinishReason::cancelled,
                                  FinishReason::paused, FinishReason::stopping, FinishReason::failed};

const char* name_of(FinishReason end) {
  switch (end) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::paused:
      return "paused";
    case FinishReason::stopping:
      return "stopping";
    case FinishReason::failed:
      return "failed";
  }
  return "";
}

// What a client is told of each end; of a failure only within a stream. "503" and its like: the status.
using Words = std::map<FinishReason, std::string>;

const Words kOpenaiWords = {
    {FinishReason::stop, R"("finish_reason":"stop","stop_reason":0)"},
    {FinishReason::length, R"("finish_reason":"length")"},
    {FinishReason::cancelled, R"("finish_reason":"abort","stop_reason":"cancelled")"},
    {FinishReason::paused, R"("finish_reason":"abort","stop_reason":"paused")"},
    {FinishReason::stopping, R"("finish_reason":"abort","stop_reason":"server_stopping")"},
    {FinishReason::failed, R"({"error":)"}};
const Words kNativeWords = {
    {FinishReason::stop, R"("finish_reason":"stop","stop_reason":0)"},
    {FinishReason::length, R"("finish_reason":"length")"},
    {FinishReason::cancelled, R"("finish_reason":"cancelled","stop_reason":"cancelled")"},
    {FinishReason::paused, R"("finish_reason":"paused","stop_reason":"paused")"},
    {FinishReason::stopping, R"("finish_reason":"server_stopping","stop_reason":"server_stopping")"},
    {FinishReason::failed, R"({"error":)"}};
const Words kMessagesWords = {{FinishReason::stop, R"("stop_reason":"end_turn")"},
                              {FinishReason::length, R"("stop_reason":"max_tokens")"},
                              {FinishReason::cancelled, R"("stop_reason":"max_tokens")"},
                              {FinishReason::paused, R"("stop_reason":"max_tokens")"},
                              {FinishReason::stopping, R"("stop_reason":"max_tokens")"},
                              {FinishReason::failed, R"("type":"error")"}};
const Words kOllamaWords = {{FinishReason::stop, R"("done_reason":"stop")"},
                            {FinishReason::length, R"("done_reason":"length")"},
                            {FinishReason::cancelled, R"("done_reason":"cancelled")"},
                            {FinishReason::paused, R"("done_reason":"paused")"},
                            {FinishReason::stopping, R"("done_reason":"server_stopping")"},
                            {FinishReason::failed, R"({"error":)"}};
const Words kLlamaWords = {{FinishReason::stop, R"("truncated":false,"stop_type":"eos")"},
                           {FinishReason::length, R"("truncated":false,"stop_type":"limit")"},
                           {FinishReason::cancelled, R"("truncated":true,"stop_type":"none")"},
                           {FinishReason::paused, R"("truncated":true,"stop_type":"none")"},
                           {FinishReason::stopping, R"("truncated":true,"stop_type":"none")"},
                           {FinishReason::failed, R"({"error":)"}};
const Words kResponseWords = {
    {FinishReason::stop, R"("status":"completed","error":null,"incomplete_details":null)"},
    {FinishReason::length,
     R"("incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"})"},
    {FinishReason::cancelled, R"("status":"cancelled","error":null,"incomplete_details":null)"},
    {FinishReason::paused, R"("incomplete","error":null,"incomplete_details":{"reason":"paused"})"},
    {FinishReason::stopping,
     R"("incomplete","error":null,"incomplete_details":{"reason":"server_stopping"})"},
    {FinishReason::failed, R"("type":"error")"}};
const Words kTranslationWords = {{FinishReason::stop, R"("text":"Hello world")"},
                                 {FinishReason::length, R"("text":"Hello world")"},
                                 {FinishReason::cancelled, "409"},
                                 {FinishReason::stopping, "503"}};

const Words& words_of(std::string_view path) {
  if (path == "/v1/responses") return kResponseWords;
  if (path == "/v1/messages") return kMessagesWords;
  if (path.starts_with("/api/")) return kOllamaWords;
  if (path == "/completion" || path == "/infill") return kLlamaWords;
  if (path.find("translate") != std::string_view::npos) return kTranslationWords;
  const bool native = path == "/chat/completions" || path.starts_with("/v2") || path.starts_with("/v3") ||
                      path.find("batch") != std::string_view::npos || path.starts_with("/v1/advanced") ||
                      path.starts_with("/state") || path.starts_with("/multi_state");
  return native ? kNativeWords : kOpenaiWords;
}

class Ends : public ::testing::Test {
 protected:
  static ServerRig::Play saying(FinishReason end) {
    if (end == FinishReason::failed) {
      return [](const Ask&) {
        return Script{
            .pieces = {"He"}, .reason = FinishReason::failed, .error = Error{ErrorKind::unavailable, "away"}};
      };
    }
    const bool whole = !is_cut(end);
    return [whole, end](const Ask&) {
      Script script = ServerRig::hello();
      if (whole && end == FinishReason::length) script = {.pieces = script.pieces, .reason = end};
      return script;
    };
  }

  // Lets the engine's rows say two tokens, then ends them. False where they cannot be ended so.
  static bool cut(ServerRig& rig, FinishReason end) {
    const auto said = [&] {
      const auto requests = rig.engine.stats().requests;
      return !requests.empty() && requests.front().generated_tokens == 2;
    };
    while (!said()) std::this_thread::yield();
    bool paused = true;
    if (end == FinishReason::cancelled) rig.engine.cancel_all(server_itself());
    if (end == FinishReason::stopping) rig.engine.stop_all();
    if (end == FinishReason::paused) {
      paused = rig.post("/v1/server/pause", "{}").body.find(R"("paused":true)") != std::string::npos;
    }
    if (!paused) rig.engine.hold_after(-1);
    return paused;
  }

  // What the route answers whose rows end like that; nothing where they cannot.
  static std::optional<Reply> ended(ServerRig& rig, const std::string& path, const std::string& body,
                                    FinishReason end) {
    if (!is_cut(end)) return rig.post(path, body);
    rig.engine.hold_after(2);
    auto reply = std::async(std::launch::async, [&] { return rig.post(path, body); });
    const bool ended = cut(rig, end);
    Reply got = reply.get();
    rig.engine.hold_after(-1);
    return ended ? std::optional(std::move(got)) : std::nullopt;
  }

  static std::string id_in(const std::string& body, const std::string& prefix) {
    const size_t at = body.find("\"id\":\"" + prefix);
    return at == std::string::npos ? std::string() : body.substr(at + 6, body.find('"', at + 6) - at - 6);
  }
};

TEST_F(Ends, AreToldApartOnEveryRoute) {
  int seen = 0;
  for (const auto& [path, start] : kBodies) {
    for (const bool stream : {false, true}) {
      for (const FinishReason end : kEnds) {
        SCOPED_TRACE(std::string(path) + (stream ? " stream " : " whole ") + name_of(end));
        ServerRig rig({}, saying(end));
        std::string body = start;
        if (const size_t at = body.find(R"("stream":false,)"); at != std::string::npos) body.erase(at, 15);
        const auto reply = ended(rig, std::string(path),
                                 body + (stream ? R"(,"stream":true})" : R"(,"stream":false})"), end);
        if (!reply) continue;
        ++seen;
        const auto word = words_of(path).find(end);
        const bool named = word != words_of(path).end();
        if (end == FinishReason::failed && (!stream || !named)) {
          EXPECT_EQ(reply->status, 503) << reply->body;
        } else if (named && word->second.size() == 3) {
          EXPECT_EQ(std::to_string(reply->status), word->second) << reply->body;
        } else {
          ASSERT_TRUE(named);
          EXPECT_EQ(reply->status, 200);
          EXPECT_THAT(reply->body, HasSubstr(word->second));
        }
        EXPECT_EQ(reply->body.find("dialogue_idx") != std::string::npos,
                  path.find("multi_state") != std::string_view::npos && *rig.engine.has_session({}, "s:1"))
            << reply->body;
      }
    }
  }
  EXPECT_GT(seen, 200);
}

TEST_F(Ends, WaitingRowsAreRefusedWhenTheServerStops) {
  for (const auto& [path, start] : kBodies) {
    SCOPED_TRACE(path);
    ServerRig rig;
    rig.engine.hold_after(0);
    auto reply = std::async(std::launch::async, [&] { return rig.post(std::string(path), start + "}"); });
    while (rig.engine.asks().empty()) std::this_thread::yield();
    rig.engine.stop_all();
    EXPECT_EQ(reply.get().status, 503);
  }
}

// A stored response says afterwards how it has ended, and is gone on from exactly where there is a state.
TEST_F(Ends, StoredResponsesKeepToWhatWasTold) {
  for (const bool stream : {false, true}) {
    for (const FinishReason end : kEnds) {
      SCOPED_TRACE(std::string(stream ? "stream " : "whole ") + name_of(end));
      ServerRig rig({}, saying(end));
      const auto reply = ended(rig, "/v1/responses",
                               std::string(R"({"input":"hi")") + (stream ? R"(,"stream":true})" : "}"), end);
      const std::string id = reply ? id_in(reply->body, "resp_") : std::string();
      EXPECT_EQ(id.empty(), !stream && (end == FinishReason::paused || end == FinishReason::failed));
      if (id.empty()) continue;
      const Reply stored = rig.get("/v1/responses/" + id);
      EXPECT_EQ(stored.status, 200);
      const bool failed = end == FinishReason::failed;
      EXPECT_THAT(stored.body, HasSubstr(failed ? R"("status":"failed","error":{"code":"server_error")"
                                                : kResponseWords.at(end)));
      EXPECT_THAT(stored.body, HasSubstr(failed ? "\"He\"" : is_cut(end) ? "\"Hello\"" : "\"Hello world\""));
      const Reply next = rig.post(
          "/v1/responses", R"({"input":"more","max_output_tokens":1,"previous_response_id":")" + id + "\"}");
      if (is_cut(end) || failed) {
        EXPECT_EQ(next.status, 409) << next.body;
        EXPECT_THAT(next.body, HasSubstr("response_without_state"));
      } else {
        EXPECT_EQ(next.status, 200) << next.body;
      }
      EXPECT_EQ(rig.send("DELETE", "/v1/responses/" + id).status, 200);
      EXPECT_EQ(rig.get("/v1/responses/" + id).status, 404);
    }
  }
}

// The status and the output of a stored response, without the ids of its items and calls.
std::string output_of(const ServerRig& rig, const std::string& id) {
  const auto stored = parse_json(rig.get("/v1/responses/" + id).body);
  std::string output = json_text(*stored->find("status")) + json_text(*stored->find("output"));
  for (const std::string lead : {"\"id\":\"", "\"call_id\":\""}) {
    for (size_t at = output.find(lead); at != std::string::npos; at = output.find(lead, at + 1)) {
      const size_t begin = at + lead.size();
      output.erase(begin, output.find('"', begin) - begin);
    }
  }
  return output;
}

TEST_F(Ends, AResumedResponseIsStoredWhole) {
  const std::string said =
      "thought</think>\n\nWell: <tool_call>{\"name\":\"add\",\"arguments\":{\"x\":1}}</tool_call>";
  const std::string body =
      R"({"input":"hi","think":true,"stream":true,"tools":[{"type":"function","name":"add","parameters":)"
      R"({"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}]})";
  const auto play = [&](const Ask&) {
    Script script;
    for (size_t at = 0; at < said.size(); at += 3) script.pieces.push_back(said.substr(at, 3));
    return script;
  };
  ServerRig plain({}, play);
  const std::string wanted = output_of(plain, id_in(plain.post("/v1/responses", body).body, "resp_"));
  EXPECT_THAT(wanted, HasSubstr("function_call"));
  const auto pieces = static_cast<int64_t>((said.size() + 2) / 3);
  ServerRig rig({}, play);
  for (int64_t first = 1; first + 2 < pieces; ++first) {
    SCOPED_TRACE(first);
    std::string id;
    const auto pause_at = [&](int64_t tokens, const std::string& path, const std::string& sent) {
      rig.engine.hold_after(tokens);
      auto stream = std::async(std::launch::async, [&] { return rig.post(path, sent).body; });
      const auto there = [&] {
        const auto requests = rig.engine.stats().requests;
        return !requests.empty() && requests.front().generated_tokens == tokens;
      };
      while (!there()) std::this_thread::yield();
      id = rig.engine.stats().requests.front().id;
      EXPECT_TRUE(rig.engine.pause(server_itself(), id).ok());
      return stream.get();
    };
    pause_at(first, "/v1/responses", body);
    EXPECT_THAT(output_of(rig, id), HasSubstr("\"incomplete\""));
    const std::string resume = R"({"request_id":")" + id + "\"}";
    pause_at(first + 2, "/v1/server/resume", resume);
    EXPECT_THAT(output_of(rig, id), HasSubstr("\"incomplete\""));
    rig.engine.hold_after(-1);
    EXPECT_EQ(rig.post("/v1/server/resume", resume).status, 200);
    EXPECT_EQ(output_of(rig, id), wanted);
    EXPECT_TRUE(*rig.engine.has_session({}, "resp:" + id) ||
                rig.post("/v1/responses", R"({"input":"a","previous_response_id":")" + id + "\"}").status ==
                    200);
  }
}

TEST_F(Ends, DeletingAResponseForgetsItsPausedRequest) {
  ServerRig rig;
  const std::string body = R"({"input":"hi","stream":true})";
  const std::string id = id_in(ended(rig, "/v1/responses", body, FinishReason::paused)->body, "resp_");
  EXPECT_EQ(rig.engine.stats().paused.size(), 1u);
  EXPECT_EQ(rig.send("DELETE", "/v1/responses/" + id).status, 200);
  EXPECT_TRUE(rig.engine.stats().paused.empty());
  EXPECT_EQ(rig.post("/v1/server/resume", R"({"request_id":")" + id + "\"}").status, 404);
  EXPECT_EQ(rig.get("/v1/responses/" + id).status, 404);
}

TEST_F(Ends, DeletingAResponseEndsItsResumedRequest) {
  ServerRig rig;
  const std::string body = R"({"input":"hi","stream":true})";
  const std::string id = id_in(ended(rig, "/v1/responses", body, FinishReason::paused)->body, "resp_");
  rig.engine.hold_after(3);
  auto rest = std::async(std::launch::async,
                         [&] { return rig.post("/v1/server/resume", R"({"request_id":")" + id + "\"}"); });
  while (rig.engine.stats().requests.empty()) std::this_thread::yield();
  EXPECT_EQ(rig.send("DELETE", "/v1/responses/" + id).status, 200);
  EXPECT_THAT(rest.get().body, HasSubstr(R"("finish_reason":"cancelled")"));
  EXPECT_EQ(rig.get("/v1/responses/" + id).status, 404);
}

TEST_F(Ends, APausedRequestIsForgottenByEitherRouteThatCancels) {
  for (const bool deleted : {false, true}) {
    ServerRig rig;
    ended(rig, "/v1/completions", R"({"prompt":"x","stream":true})", FinishReason::paused);
    const std::string id = rig.engine.stats().paused.front().id;
    if (deleted) {
      EXPECT_EQ(rig.send("DELETE", "/v1/requests/" + id).status, 200);
    } else {
      EXPECT_THAT(rig.post("/v1/server/stop", R"({"request_id":")" + id + "\"}").body,
                  HasSubstr(R"("stopped":true)"));
    }
    EXPECT_EQ(rig.post("/v1/server/resume", R"({"request_id":")" + id + "\"}").status, 404);
    EXPECT_EQ(rig.send("DELETE", "/v1/requests/" + id).status, 404);
  }
}

// A turn of a tree keeps its number while it is paused, and tells it once it is stored.
TEST_F(Ends, APausedBranchHasItsNumberToItself) {
  ServerRig rig;
  const std::string turn = R"({"session_id":"s","dialogue_idx":0,"contents":["hi"])";
  const auto paused =
      ended(rig, "/multi_state/chat/completions", turn + R"(,"stream":true})", FinishReason::paused);
  EXPECT_THAT(paused->body, Not(HasSubstr("dialogue_idx")));
  const std::string id = rig.engine.stats().paused.front().id;
  EXPECT_THAT(rig.post("/multi_state/chat/completions", turn + "}").body, HasSubstr(R"("dialogue_idx":2)"));
  EXPECT_THAT(rig.post("/v1/server/resume", R"({"request_id":")" + id + "\"}").body,
              HasSubstr(R"({"object":"multi_state.dialogue_idx","session_id":"s:1","dialogue_idx":1})"));
  EXPECT_TRUE(*rig.engine.has_session({}, "s:1"));
}

}  // namespace
}  // namespace fulmar::testing
