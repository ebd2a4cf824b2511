// What /v1/responses repeats of a request, summaries, and responses in the background.
#include <gmock/gmock.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <stdexcept>

#include "cache/document_store.h"
#include "cache/sqlite_statement.h"
#include "grammar/schema_values.h"
#include "server/responses/background_responses.h"
#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string id_of(const Reply& reply) { return parse_json(reply.body)->find("id")->as_string(); }

TEST(ResponseEcho, WhatWasSentIsRepeated) {
  const ServerRig rig;
  const Reply reply = rig.post(
      "/v1/responses",
      R"({"input":"hi","metadata":{"k":"v"},"tool_choice":"auto","reasoning":{"effort":"low","summary":"auto"},)"
      R"("tools":[{"type":"function","name":"add","description":"Adds","strict":true,"parameters":{"type":"object"}}]})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_THAT(reply.body, HasSubstr(R"("metadata":{"k":"v"})"));
  EXPECT_THAT(reply.body, HasSubstr(R"("reasoning":{"effort":"low","summary":"auto"})"));
  EXPECT_THAT(reply.body,
              HasSubstr(R"("tools":[{"type":"function","name":"add","description":"Adds","strict":true,)"
                        R"("parameters":{"type":"object"}}])"));
  EXPECT_THAT(rig.post("/v1/responses", R"({"input":"hi"})").body,
              HasSubstr(R"("tool_choice":"auto","tools":[])"));
}

TEST(ResponseEcho, ThinkingIsASummaryWhenAskedFor) {
  ServerRig rig({}, [](const Ask&) { return Script{.pieces = {">\nHm", "</think>\nYes"}, .stop_id = 0}; });
  const std::string asked = R"({"input":"hi","reasoning":{"effort":"low","summary":"auto"})";
  EXPECT_THAT(rig.post("/v1/responses", asked + "}").body,
              HasSubstr(R"("type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}]})"));
  const std::string stream = rig.post("/v1/responses", asked + R"(,"stream":true})").body;
  for (const char* type : {"reasoning_summary_part.added", "reasoning_summary_text.delta",
                           "reasoning_summary_text.done", "reasoning_summary_part.done"}) {
    EXPECT_THAT(stream, HasSubstr(std::string(R"("type":"response.)") + type));
  }
  EXPECT_THAT(stream, HasSubstr(R"("summary_index":0,"delta":"Hm")"));
  EXPECT_THAT(rig.post("/v1/responses", R"({"input":"hi","reasoning":{"effort":"low"}})").body,
              HasSubstr(R"("summary":[],"content":[{"type":"reasoning_text","text":"Hm"}])"));
}

// Waits for what another thread does, in steps that a test can afford.
std::string settled(const ServerRig& rig, const std::string& id) {
  std::string body;
  for (int tries = 0; tries < 1000; ++tries) {
    body = rig.get("/v1/responses/" + id).body;
    if (body.find(R"("status":"in_progress")") == std::string::npos) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return body;
}

std::string finished(const ServerRig& rig, const std::string& id) {
  std::string body = settled(rig, id);
  while (body.find(R"("status":"queued")") != std::string::npos) body = settled(rig, id);
  return body;
}

TEST(BackgroundResponses, AnswerAtOnceAndAreFoundLater) {
  ServerRig rig;
  rig.engine.hold_after(2);
  const Reply first = rig.post("/v1/responses", R"({"input":"hi","background":true})");
  EXPECT_EQ(first.status, 200);
  EXPECT_THAT(first.body, HasSubstr(R"("status":"queued","background":true)"));
  const std::string id = id_of(first);
  EXPECT_THAT(rig.get("/v1/responses/" + id).body, HasSubstr(R"("status":"in_progress")"));
  rig.engine.hold_after(-1);
  EXPECT_THAT(settled(rig, id), HasSubstr(R"("status":"completed")"));
  EXPECT_THAT(rig.get("/v1/responses/" + id).body, HasSubstr("Hello world"));
  EXPECT_EQ(rig.post("/v1/responses", R"({"input":"on","previous_response_id":")" + id + "\"}").status, 200);
  EXPECT_EQ(rig.send("DELETE", "/v1/responses/" + id).status, 200);
  EXPECT_EQ(rig.get("/v1/responses/" + id).status, 404);
}

TEST(BackgroundResponses, AreCancelled) {
  ServerRig rig;
  rig.engine.hold_after(1);
  const std::string id = id_of(rig.post("/v1/responses", R"({"input":"hi","background":true})"));
  const Reply cancelled = rig.post("/v1/responses/" + id + "/cancel", "");
  EXPECT_EQ(cancelled.status, 200);
  EXPECT_THAT(cancelled.body, HasSubstr(R"("status":"cancelled")")) << "said once the row has ended";
  EXPECT_EQ(rig.engine.cancelled(), 1);
  EXPECT_EQ(rig.get("/v1/responses/" + id).body, cancelled.body);
  EXPECT_EQ(rig.post("/v1/responses/" + id + "/cancel", "").body, cancelled.body);
  rig.engine.hold_after(-1);
  const std::string other = id_of(rig.post("/v1/responses", R"({"input":"hi"})"));
  EXPECT_EQ(rig.post("/v1/responses/" + other + "/cancel", "").status, 400);
  EXPECT_EQ(rig.post("/v1/responses/" + other + "/other", "").status, 405);
}

// The file of stored responses, gone at the end.
struct ResponsesFile {
  const std::filesystem::path folder = make_folder();
  ~ResponsesFile() { std::filesystem::remove_all(folder); }
  ServerOptions options() const {
    ServerOptions options;
    options.responses_db = (folder / "responses.db").string();
    return options;
  }
  static std::filesystem::path make_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "fulmar-responses-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    return name;
  }
};

TEST(BackgroundResponses, AreTakenUpAgainByTheNextServer) {
  const ResponsesFile file;
  std::string running, over;
  {
    ServerRig rig(file.options());
    over = id_of(rig.post("/v1/responses", R"({"input":"hi","background":true})"));
    EXPECT_THAT(settled(rig, over), HasSubstr(R"("status":"completed")"));
    rig.engine.hold_after(1);
    running = id_of(rig.post(
        "/v1/responses", R"({"input":"later","background":true,"metadata":{"k":"v"},"password":"secret"})"));
    EXPECT_THAT(rig.get("/v1/responses/" + running).body, HasSubstr(R"("status":"in_progress")"));
    rig.server->stop(std::chrono::milliseconds(0));
  }
  ServerRig rig(file.options());
  const std::string body = finished(rig, running);
  EXPECT_THAT(body, HasSubstr(R"("status":"completed","background":true)"));
  EXPECT_THAT(body, HasSubstr("Hello world"));
  EXPECT_THAT(body, HasSubstr(R"("metadata":{"k":"v"})"));
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt), "User: later\n\nAssistant:");
  EXPECT_EQ(rig.engine.asks().size(), 1u) << "what was over is not made again";
  EXPECT_THAT(rig.get("/v1/responses/" + over).body, HasSubstr(R"("status":"completed")"));
  EXPECT_EQ(rig.get("/v1/responses/job:" + running).status, 404);
}

// What a process that is killed leaves: the files as they are once the answer is there.
TEST(BackgroundResponses, AreStoredBeforeTheyAreAnswered) {
  const ResponsesFile file;
  ServerRig rig(file.options());
  rig.engine.hold_after(1);
  for (int i = 0; i < 20; ++i) {
    const ResponsesFile killed;
    const std::string id = id_of(rig.post("/v1/responses", R"({"input":"hi","background":true})"));
    std::filesystem::copy(file.folder, killed.folder, std::filesystem::copy_options::recursive);
    ServerRig next(killed.options());
    EXPECT_THAT(finished(next, id), HasSubstr(R"("status":"completed")")) << i;
  }
  rig.engine.hold_after(-1);
}

// The model serves before the server has heard that it is there.
TEST(BackgroundResponses, PostedAtTheStartAreMadeOnce) {
  ServerOptions options;
  options.loading = true;
  ServerRig rig(options);
  rig.engine.hold_after(1);
  const std::string id = id_of(rig.post("/v1/responses", R"({"input":"hi","background":true})"));
  rig.server->loaded();
  EXPECT_EQ(rig.post("/v1/responses", R"({"input":5})").status, 400);  // behind what loaded() has begun
  rig.engine.hold_after(-1);
  EXPECT_THAT(settled(rig, id), HasSubstr(R"("status":"completed")"));
  EXPECT_EQ(rig.engine.asks().size(), 1u);
}

TEST(BackgroundResponses, ThatWaitAreFoundCancelledAndDeleted) {
  const ResponsesFile file;
  std::vector<std::string> ids;
  {
    ServerRig rig(file.options());
    rig.engine.hold_after(1);
    for (int i = 0; i < 3; ++i)
      ids.push_back(id_of(rig.post("/v1/responses", R"({"input":"hi","background":true})")));
    rig.server->stop(std::chrono::milliseconds(0));
  }
  {
    ServerOptions options = file.options();
    options.loading = true;
    ServerRig rig(options);
    for (const std::string& id : ids)
      EXPECT_THAT(rig.get("/v1/responses/" + id).body, HasSubstr(R"("status":"queued")"));
    EXPECT_THAT(rig.post("/v1/responses/" + ids[1] + "/cancel", "").body,
                HasSubstr(R"("status":"cancelled")"));
    EXPECT_EQ(rig.send("DELETE", "/v1/responses/" + ids[2]).status, 200);
    rig.server->loaded();
    EXPECT_THAT(finished(rig, ids[0]), HasSubstr(R"("status":"completed")"));
    EXPECT_EQ(rig.engine.asks().size(), 1u);
  }
  const ServerRig rig(file.options());
  EXPECT_THAT(rig.get("/v1/responses/" + ids[0]).body, HasSubstr(R"("status":"completed")"));
  EXPECT_THAT(rig.get("/v1/responses/" + ids[1]).body, HasSubstr(R"("status":"cancelled")"));
  EXPECT_EQ(rig.get("/v1/responses/" + ids[2]).status, 404);
}

TEST(BackgroundResponses, ThatAServerHasNoRoomForWaitForTheNext) {
  const ResponsesFile file;
  std::string id;
  {
    ServerRig rig(file.options());
    rig.engine.hold_after(1);
    id = id_of(rig.post("/v1/responses", R"({"input":"hi","background":true})"));
    rig.server->stop(std::chrono::milliseconds(0));
  }
  for (int start = 0; start < 4; ++start) {  // more often than a response is begun
    ServerRig rig(file.options(), nullptr, [](ServedModel& model) {
      static_cast<ScriptedEngine*>(model.engine)->refuse(Error{ErrorKind::unavailable, "full"});
    });
    rig.server->stop(std::chrono::milliseconds(0));
  }
  ServerRig rig(file.options());
  EXPECT_THAT(finished(rig, id), HasSubstr(R"("status":"completed")"));
}

// From before the start on, which takes up what the server before has not made.
void hold(ServedModel& model, int64_t tokens) {
  static_cast<ScriptedEngine*>(model.engine)->hold_after(tokens);
}

// Each in a server with two keys, of which one takes all that it may.
TEST(BackgroundResponses, AreTakenFromNobodyByAnothersLargeOnes) {
  const ResponsesFile file;
  ServerOptions options = file.options();
  options.api_keys = std::vector<ApiKey>{{.name = "a", .hash = hash_of_key("first")},
                                         {.name = "b", .hash = hash_of_key("second")}};
  const Headers first = header("Authorization", "Bearer first");
  const Headers second = header("Authorization", "Bearer second");
  std::string made, waits;
  {
    ServerRig rig(options);
    made = id_of(rig.post("/v1/responses", R"({"input":"hi"})", first));
    rig.engine.hold_after(1);
    waits = id_of(rig.post("/v1/responses", R"({"input":"hi","background":true})", first));
    const std::string large = R"({"input":"hi","background":true,"tools":[{"type":"web_search","x":")" +
                              std::string(size_t{40} << 20, 'x') + R"("}]})";
    std::vector<int> statuses;
    for (int i = 0; i < 4; ++i) statuses.push_back(rig.post("/v1/responses", large, second).status);
    EXPECT_TRUE(statuses.front() == 200 && statuses.back() == 429)
        << "what is under way is bounded, by owner";
    EXPECT_EQ(rig.post("/v1/responses", R"({"input":"hi","background":true})", first).status, 200);
    rig.server->stop(std::chrono::milliseconds(0));
  }
  ServerRig rig(options);
  const auto status = [&](const std::string& id) { return rig.get("/v1/responses/" + id, first); };
  EXPECT_EQ(status(made).status, 200);
  EXPECT_EQ(status(waits).status, 200);
}

TEST(BackgroundResponses, OfOneOwnerAreCounted) {
  ResponseStore answers;
  BackgroundResponses background(answers);
  using Start = BackgroundResponses::Start;
  const auto start = [&](size_t number, const std::string& owner) {
    return background.start(owner + std::to_string(number), owner, nullptr, [] { return std::string(); });
  };
  for (size_t i = 0; i < BackgroundResponses::kMostOfOwner; ++i) EXPECT_EQ(start(i, "a"), Start::begun);
  EXPECT_EQ(start(BackgroundResponses::kMostOfOwner, "a"), Start::owner_has_many);
  EXPECT_EQ(start(0, "b"), Start::begun);
  background.end("a0", std::nullopt, false);
  EXPECT_EQ(start(0, "a"), Start::begun);
}

// By the engine, or by what fails on the way to it: neither counted nor found.
TEST(BackgroundResponses, ThatAreRefusedLeaveNothing) {
  const ResponsesFile file;
  {
    std::atomic<bool> throws = true;
    ServerRig rig(file.options(), [&](const Ask&) {
      if (throws) throw std::runtime_error("no such luck");
      return ServerRig::hello();
    });
    const auto post = [&] { return rig.post("/v1/responses", R"({"input":"hi","background":true})"); };
    for (size_t i = 0; i <= BackgroundResponses::kMostOfOwner; ++i) EXPECT_EQ(post().status, 500);
    rig.engine.refuse(Error{ErrorKind::unavailable, "full"});
    for (size_t i = 0; i <= BackgroundResponses::kMostOfOwner; ++i) EXPECT_EQ(post().status, 503);
    rig.engine.refuse(std::nullopt);
    throws = false;
    EXPECT_THAT(settled(rig, id_of(post())), HasSubstr(R"("status":"completed")"));
  }
  const auto documents = open_document_store(file.options().responses_db);
  EXPECT_TRUE((*documents)->lasting()->empty());
}

TEST(BackgroundResponses, TellTheWarningsOfAnAnswerThatIsWaitedFor) {
  const ResponsesFile file;
  const std::string body =
      R"({"input":"hi","tools":[{"type":"function","name":"add","strict":true,"parameters":{"type":"object"}}],)"
      R"("response_format":{"type":"json_schema","json_schema":{"strict":false,"schema":{"type":"object",)"
      R"("properties":{"a":{"type":"string","pattern":"(a)\\1"}}}}})";
  const auto warnings = [](const std::string& json) {
    const auto parsed = parse_json(json);
    const JsonValue* list = parsed.ok() ? parsed->find("warnings") : nullptr;
    return list ? json_text(*list) : std::string();
  };
  std::string id, told;
  {
    ServerRig rig(file.options());
    const std::string wanted = warnings(rig.post("/v1/responses", body + "}").body);
    EXPECT_THAT(wanted, HasSubstr("pattern"));
    rig.engine.hold_after(1);
    const Reply accepted = rig.post("/v1/responses", body + R"(,"background":true,"mirostat":2})");
    told = warnings(accepted.body);
    EXPECT_THAT(told, AllOf(HasSubstr("mirostat"), HasSubstr(wanted.substr(1, wanted.size() - 2))));
    EXPECT_TRUE(accepted.headers.find("Fulmar-Warning"));
    id = id_of(accepted);
    EXPECT_EQ(warnings(rig.get("/v1/responses/" + id).body), told);
    rig.server->stop(std::chrono::milliseconds(0));
  }
  ServerRig rig(file.options());
  const std::string made = finished(rig, id);
  EXPECT_THAT(made, HasSubstr(R"("status":"completed")"));
  EXPECT_EQ(warnings(made), told);
}

// An older file that cannot be brought up holds what must not be done without.
TEST(ResponseFiles, ThatCannotBeBroughtUpEndTheStart) {
  const ResponsesFile file;
  const std::string path = file.options().responses_db;
  { ASSERT_TRUE(open_document_store(path).ok()); }
  {
    const auto database = open_database(path);
    ASSERT_TRUE(execute(*database, "UPDATE fulmar_meta SET value = 1 WHERE key = 'schema'").ok());
  }
  ModelRegistry models;
  const auto started = Server::start(file.options(), models);
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(started.error().text, HasSubstr("--state-db-path"));
}

TEST(BackgroundResponses, CancelledAndDeletedOnesDoNotComeBack) {
  const ResponsesFile file;
  std::string cancelled, deleted;
  {
    ServerRig rig(file.options());
    rig.engine.hold_after(1);
    cancelled = id_of(rig.post("/v1/responses", R"({"input":"hi","background":true})"));
    deleted = id_of(rig.post("/v1/responses", R"({"input":"hi","background":true})"));
    EXPECT_EQ(rig.post("/v1/responses/" + cancelled + "/cancel", "").status, 200);
    EXPECT_EQ(rig.send("DELETE", "/v1/responses/" + deleted).status, 200);
    rig.engine.hold_after(-1);
    EXPECT_THAT(settled(rig, cancelled), HasSubstr(R"("status":"cancelled")"));
    EXPECT_TRUE(rig.engine.wait_idle());
  }
  ServerRig rig(file.options());
  EXPECT_THAT(rig.get("/v1/responses/" + cancelled).body, HasSubstr(R"("status":"cancelled")"));
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(BackgroundResponses, SayHowTheyFailed) {
  ServerRig rig({}, [](const Ask&) {
    return Script{
        .pieces = {"a"}, .reason = FinishReason::failed, .error = Error{ErrorKind::conflict, "no session"}};
  });
  const std::string id = id_of(rig.post("/v1/responses", R"({"input":"hi","background":true})"));
  EXPECT_THAT(settled(rig, id), HasSubstr(R"("status":"failed")"));
  EXPECT_THAT(rig.get("/v1/responses/" + id).body,
              HasSubstr(R"("error":{"code":"server_error","message":"no session"})"));
}

TEST(BackgroundResponses, CountOnTheirClientsKey) {
  ServerOptions options;
  options.api_keys = std::vector<ApiKey>{{.name = "k", .hash = hash_of_key("secret"), .max_rows = 1}};
  ServerRig rig(options);
  rig.engine.hold_after(1);
  Headers key;
  key.set("Authorization", "Bearer secret");
  EXPECT_EQ(rig.post("/v1/responses", R"({"input":"hi","background":true})", key).status, 200);
  EXPECT_EQ(rig.post("/v1/responses", R"({"input":"hi","background":true})", key).status, 429);
  rig.engine.hold_after(-1);
  int status = 0;
  for (int tries = 0; tries < 1000 && status != 200; ++tries) {
    status = rig.post("/v1/responses", R"({"input":"hi","background":true})", key).status;
    if (status != 200) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(status, 200) << "the row is given back at its end";
}

// The server after counts what it takes up on the same key, and takes up nothing of a key that has gone.
TEST(BackgroundResponses, CountOnTheirClientsKeyAfterARestart) {
  const ResponsesFile file;
  ServerOptions options = file.options();
  const ApiKey own{.name = "k", .hash = hash_of_key("secret"), .max_rows = 1};
  const ApiKey other{.name = "other", .hash = hash_of_key("other secret"), .max_rows = 1};
  options.api_keys = std::vector<ApiKey>{own, other};
  const auto held = [](ServedModel& model) { hold(model, 1); };
  Headers key, other_key;
  key.set("Authorization", "Bearer secret");
  other_key.set("Authorization", "Bearer other secret");
  std::string gone;
  {
    ServerRig rig(options, nullptr, held);
    EXPECT_EQ(rig.post("/v1/responses", R"({"input":"hi","background":true})", key).status, 200);
    const Reply of_other = rig.post("/v1/responses", R"({"input":"hi","background":true})", other_key);
    gone = id_of(of_other);
    rig.server->stop(std::chrono::milliseconds(0));
  }
  options.api_keys = std::vector<ApiKey>{own};
  options.password = "administrator";
  ServerRig rig(options, nullptr, held);
  Headers administrator;
  administrator.set("Authorization", "Bearer administrator");
  std::string failed;
  for (int tries = 0; tries < 1000 && failed.find("failed") == std::string::npos; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    failed = rig.get("/v1/responses/" + gone, administrator).body;
  }
  EXPECT_THAT(failed, HasSubstr("no longer in force"));
  for (int tries = 0; tries < 1000 && rig.engine.asks().empty(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x"})", key).status, 429) << "its one row is taken";
  rig.engine.hold_after(-1);
}

TEST(BackgroundResponses, NeedTheStore) {
  const ServerRig rig;
  for (const char* body : {R"({"input":"hi","background":true,"store":false})",
                           R"({"input":"hi","background":true,"stream":true})"}) {
    const Reply reply = rig.post("/v1/responses", body);
    EXPECT_EQ(reply.status, 400);
    EXPECT_THAT(reply.body, HasSubstr("'background' needs 'store'"));
  }
}

TEST(ResponseInput, ItemsOfStoredResponsesAreFoundByReference) {
  ServerRig rig;
  const auto first = parse_json(rig.post("/v1/responses", R"({"input":"hi"})").body);
  const std::string item = first->find("output")->as_array()[0].find("id")->as_string();
  const auto with = [&](const std::string& id) {
    return rig.post("/v1/responses",
                    R"({"input":[{"role":"user","content":"hi"},{"type":"item_reference","id":")" + id +
                        R"("},{"role":"user","content":"on"}]})");
  };
  EXPECT_EQ(with(item).status, 200);
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt),
            "User: hi\n\nAssistant: Hello world\n\nUser: on\n\nAssistant:");
  const Reply unknown = with("msg_0");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_THAT(unknown.body, HasSubstr("'input[1]' refers to the item 'msg_0', which is not stored"));
}

TEST(ResponseInput, ClientsOwnToolsAndThoughtsAreUnderstood) {
  ServerRig rig;
  const Reply reply = rig.post(
      "/v1/responses",
      R"({"input":[{"role":"developer","content":"D"},{"role":"user","content":"q"},{"type":"reasoning","summary":[]},)"
      R"({"type":"custom_tool_call","call_id":"c","name":"shell","input":"ls"},)"
      R"({"type":"custom_tool_call_output","call_id":"c","output":"a.txt"}]})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_THAT(
      rig.tokenizer.decode(rig.last_ask().prompt),
      HasSubstr(
          "<tool_call>{\"name\":\"shell\",\"arguments\":{\"input\":\"ls\"}}</tool_call>\n\nTool: a.txt"));
}

}  // namespace
}  // namespace fulmar::testing
