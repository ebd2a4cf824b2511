// Models and tuned states by name, and their administration at the HTTP boundary.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <thread>

#include "server/admin_rig.h"

namespace fulmar::testing {
namespace {

constexpr const char* kSuccess = R"({"status":"success"})";

TEST(Admin, StateByModelNameOnEveryGeneratingRoute) {
  AdminRig rig;
  EXPECT_EQ(rig.post("/loadstatemodel", R"({"state_filename":"s","state_viewname":"S"})").body, kSuccess);
  const std::pair<const char*, const char*> routes[] = {
      {"/v1/chat/completions", R"("messages":[{"role":"user","content":"x"}])"},
      {"/openai/v1/chat/completions", R"("messages":[{"role":"user","content":"x"}])"},
      {"/v1/completions", R"("prompt":"x")"},
      {"/v2/chat/completions", R"("contents":["x"])"},
      {"/v3/chat/completions", R"("messages":[{"role":"user","content":"x"}])"},
      {"/v1/batch/completions", R"("contents":["x"])"},
      {"/big_batch/completions", R"("contents":["x"])"},
      {"/state/chat/completions", R"("contents":["x"],"session_id":"s")"}};
  for (const auto& [path, input] : routes) {
    for (const auto& [name, state] : {std::pair{"tiny-rwkv7 S", "S"}, {"rwkv S", "S"}, {"tiny-rwkv7", ""}}) {
      EXPECT_EQ(rig.post(path, fmt::format(R"({{"model":"{}",{}}})", name, input)).status, 200) << path;
      EXPECT_EQ(rig.last_ask().state.initial_state, state) << path << name;
    }
  }
}

TEST(Admin, StateByIdInFieldOrHeader) {
  AdminRig rig;
  rig.post("/loadstatemodel", R"({"state_filename":"s","state_viewname":"S"})");
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x","state_id":"S"})").status, 200);
  EXPECT_EQ(rig.last_ask().state.initial_state, "S");
  Headers header;
  header.set("X-RWKV-State-Id", "S");
  EXPECT_EQ(rig.post("/v2/chat/completions", R"({"contents":["x"]})", header).status, 200);
  EXPECT_EQ(rig.last_ask().state.initial_state, "S");
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x","state_id":"T"})", header).status, 400);
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x","state_id":"T"})").status, 404);
}

TEST(Admin, SamplingDefaultsOfRequestThenStateThenModel) {
  AdminRig rig;
  rig.post("/loadmodel", R"({"model_filename":"m","model_viewname":"M","default_temperature":"0.7"})");
  rig.post("/loadstatemodel",
           R"({"state_filename":"s","state_viewname":"S","default_temperature":0.4,"default_top_p":"0.3"})");
  const auto temperature_of = [&](const std::string& fields) {
    rig.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}],)" + fields + "}");
    return rig.last_ask().sampling.temperature;
  };
  EXPECT_FLOAT_EQ(temperature_of(R"("model":"M")"), 0.7f);
  EXPECT_FLOAT_EQ(temperature_of(R"("model":"M S")"), 0.4f);
  EXPECT_FLOAT_EQ(rig.last_ask().sampling.top_p, 0.3f);
  EXPECT_FLOAT_EQ(temperature_of(R"("model":"M S","temperature":0.2)"), 0.2f);
}

TEST(Admin, ListsNameModelsAndStates) {
  AdminRig rig;
  rig.post("/loadstatemodel", R"({"state_filename":"s","state_viewname":"S"})");
  rig.post("/loadmodel", R"({"model_filename":"m","model_viewname":"M"})");
  EXPECT_EQ(
      rig.get("/models").body,
      R"([{"object":"models","id":"M"},{"object":"models","id":"tiny-rwkv7"},{"object":"models","id":"tiny-rwkv7 S"}])");
  EXPECT_TRUE(rig.get("/v1/models").body.ends_with(R"(],"loaded":"M","available":["one","two"]})"));
  EXPECT_EQ(rig.get("/v1/models/tiny-rwkv7%20S").status, 200);
  EXPECT_EQ(rig.post("/removestatemodel", "").body, kSuccess);
  EXPECT_EQ(rig.get("/v1/models/tiny-rwkv7%20S").status, 404);
  EXPECT_EQ(rig.post("/removemodel", R"({"model_viewname":"M"})").body, kSuccess);
  EXPECT_EQ(rig.get("/models").body, R"([{"object":"models","id":"tiny-rwkv7"}])");
  EXPECT_EQ(rig.post("/removemodel", "").body, kSuccess);
  EXPECT_EQ(rig.get("/models").body, "[]");
  EXPECT_EQ(rig.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})").status, 503);
}

TEST(Admin, SwitchesAmongAvailableModels) {
  AdminRig rig;
  EXPECT_EQ(rig.post("/v1/model/load", R"({"model":"one"})").body,
            R"({"object":"model","id":"one","loaded":true})");
  EXPECT_EQ(rig.post("/v1/model/load", R"({"model":"three"})").status, 400);
}

TEST(Admin, AStrategyComesBackWithWhatBecameOfTheWeights) {
  AdminRig rig;
  EXPECT_EQ(rig.post("/loadmodel", R"({"model_filename":"m","model_strategy":"fp6"})").body,
            R"({"status":"success","model_strategy":"fp6","weights":"nearest to fp6"})");
}

TEST(Admin, Errors) {
  AdminRig rig;
  const std::tuple<const char*, const char*, int, const char*> cases[] = {
      {"/loadmodel", "{}", 400, R"({"detail":"'model_filename' is required"})"},
      {"/loadmodel", R"({"model_filename":"bad"})", 404, R"({"detail":"no file 'bad'"})"},
      {"/loadmodel", R"({"model_filename":"m","model_strategy":"nonsense"})", 400,
       R"({"detail":"model_strategy: 'nonsense'"})"},
      {"/loadmodel", R"({"model_filename":7})", 400, nullptr},
      {"/loadstatemodel", R"({"state_filename":"bad","state_viewname":"S"})", 400,
       R"({"detail":"State file is incorrect. check filename or tensor size."})"},
      {"/loadstatemodel", R"({"state_filename":"s"})", 400, R"({"detail":"'state_viewname' is required"})"},
      {"/removemodel", R"({"model_viewname":"X"})", 404, R"({"detail":"The model 'X' is not loaded"})"},
  };
  for (const auto& [path, body, status, wanted] : cases) {
    const Reply reply = rig.post(path, body);
    EXPECT_EQ(reply.status, status) << path << body;
    if (wanted) {
      EXPECT_EQ(reply.body, wanted);
    }
  }
  EXPECT_EQ(rig.get("/models").body, R"([{"object":"models","id":"tiny-rwkv7"}])");
  const ServerRig fixed;
  EXPECT_EQ(fixed.post("/loadmodel", R"({"model_filename":"m"})").status, 501);
}

// "state=weight" of each member.
std::string members_of(const Ask& ask) {
  std::string text;
  for (const MixtureMember& member : ask.state.mixture) {
    text += fmt::format("{}={} ", member.state, member.weight);
  }
  return text;
}

TEST(Mixtures, LoadedWeighedAndUsedByName) {
  AdminRig rig;
  EXPECT_EQ(rig.post("/mrss_loadstatemodel",
                     R"({"state_viewname":"M","state_filenames":["a","b"],"contain_originalstate":"True",)"
                     R"("state_gatingweight":["0.5",2],"default_temperature":"0.3"})")
                .body,
            kSuccess);
  EXPECT_NE(rig.get("/models").body.find(R"("id":"tiny-rwkv7 M")"), std::string::npos);
  const auto ask = [&](const std::string& more) {
    EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x","model":"tiny-rwkv7 M")" + more + "}").status,
              200);
    return members_of(rig.last_ask());
  };
  EXPECT_EQ(ask(""), "a=0.5 b=2 =0 ");
  EXPECT_EQ(rig.last_ask().state.initial_state, "");
  EXPECT_FLOAT_EQ(rig.last_ask().sampling.temperature, 0.3f);
  EXPECT_EQ(ask(R"(,"mrss_gatingweight":[1,"1",1])"), "a=1 b=1 =1 ");
  for (const char* name : {"M", "tiny-rwkv7 M"}) {
    EXPECT_EQ(rig.post("/mrss_set_gatingweight", fmt::format(R"({{"state_viewname":"{}",)"
                                                             R"("state_gatingweight":[0,0,3]}})",
                                                             name))
                  .body,
              kSuccess);
  }
  EXPECT_EQ(ask(""), "a=0 b=0 =3 ");
  EXPECT_EQ(rig.post("/mrss_loadstatemodel", R"({"state_viewname":"E","state_filenames":["a","b"]})").body,
            kSuccess);
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x","state_id":"E"})").status, 200);
  EXPECT_EQ(members_of(rig.last_ask()), "a=1 b=1 ");
}

TEST(Mixtures, Errors) {
  AdminRig rig;
  rig.post("/mrss_loadstatemodel", R"({"state_viewname":"M","state_filenames":["a","b"]})");
  rig.post("/loadstatemodel", R"({"state_filename":"s","state_viewname":"S"})");
  const std::string before = rig.get("/models").body;
  const std::tuple<const char*, const char*, int> cases[] = {
      {"/mrss_loadstatemodel", R"({"state_filenames":["a"]})", 400},
      {"/mrss_loadstatemodel", R"({"state_viewname":"X"})", 400},
      {"/mrss_loadstatemodel", R"({"state_viewname":"X","state_filenames":[]})", 400},
      {"/mrss_loadstatemodel", R"({"state_viewname":"X","state_filenames":[7]})", 400},
      {"/mrss_loadstatemodel", R"({"state_viewname":"X","state_filenames":["a"],"state_gatingweight":[0]})",
       400},
      {"/mrss_loadstatemodel", R"({"state_viewname":"X","state_filenames":["a"],"state_gatingweight":[1,1]})",
       400},
      {"/mrss_loadstatemodel", R"({"state_viewname":"X","state_filenames":["a"],"state_gatingweight":["x"]})",
       400},
      {"/mrss_loadstatemodel", R"({"state_viewname":"X","state_filenames":["a","b","c","d","e"]})", 400},
      {"/mrss_loadstatemodel", R"({"state_viewname":"X","state_filenames":["a","bad"]})", 400},
      {"/mrss_set_gatingweight", R"({"state_viewname":"X","state_gatingweight":[1]})", 404},
      {"/mrss_set_gatingweight", R"({"state_viewname":"S","state_gatingweight":[1]})", 404},
      {"/mrss_set_gatingweight", R"({"state_viewname":"M"})", 400},
      {"/mrss_set_gatingweight", R"({"state_viewname":"M","state_gatingweight":[]})", 400},
      {"/mrss_set_gatingweight", R"({"state_viewname":"M","state_gatingweight":[1,1,1]})", 400},
      {"/v1/completions", R"({"prompt":"x","model":"tiny-rwkv7 M","mrss_gatingweight":[0,0]})", 400},
      {"/v1/completions", R"({"prompt":"x","model":"tiny-rwkv7 M","mrss_gatingweight":7})", 400},
      {"/v1/embeddings", R"({"input":"x","model":"tiny-rwkv7 M"})", 400},
  };
  for (const auto& [path, body, status] : cases) {
    const Reply reply = rig.post(path, body);
    EXPECT_EQ(reply.status, status) << path << body << reply.body;
    EXPECT_TRUE(reply.body.starts_with(path[1] == 'm' ? R"({"detail":")" : R"({"error":)")) << reply.body;
  }
  EXPECT_EQ(rig.get("/models").body, before);
  EXPECT_TRUE(rig.engine.asks().empty());
}

Headers form_header() {
  Headers headers;
  headers.set("Content-Type", "multipart/form-data; boundary=XX");
  return headers;
}

std::string form(const std::string& disposition, const std::string& content) {
  return "--XX\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + content + "\r\n--XX--\r\n";
}

constexpr const char* kKeptFile =
    R"("state_id":"p","filename":"p.st","original_filename":"p.st","size_bytes":5,"tensor_count":2,)"
    R"("layers":2,"heads":3,"head_size":4,"created":5,"created_ms":5678,)"
    R"("uploaded_at":"1970-01-01T00:00:05.678000Z")";

TEST(StateFiles, SentListedAndDeleted) {
  AdminRig rig;
  const std::string upload = form(R"(name="file"; filename="p.st")", "\r\n--X");
  EXPECT_EQ(rig.get("/v1/state/list").body, R"({"object":"list","data":[]})");
  EXPECT_EQ(rig.post("/v1/state/upload", upload, form_header()).body,
            fmt::format(R"({{"object":"rwkv.state",{}}})", kKeptFile));
  EXPECT_EQ(rig.post("/v1/state/list", "").body,
            fmt::format(R"({{"object":"list","data":[{{{}}}]}})", kKeptFile));
  EXPECT_EQ(rig.send("DELETE", "/v1/state/delete", R"({"state_id":"p"})").body,
            R"({"object":"rwkv.state","state_id":"p","deleted":true})");
  const Reply again = rig.post("/v1/state/delete", R"({"state_id":"p"})");
  EXPECT_EQ(again.status, 404);
  EXPECT_EQ(
      again.body,
      R"({"object":"rwkv.state","state_id":"p","deleted":false,"error":"The state 'p' does not exist"})");
}

TEST(StateFiles, AreNotSaidToBeDeletedWhileTheyCannotBe) {
  AdminRig rig;
  rig.post("/v1/state/upload", form(R"(name="file"; filename="p.st")", "\r\n--X"), form_header());
  rig.admin.disk_fails = true;
  for (const char* id : {"p", "p.st"}) {
    const Reply refused = rig.post("/v1/state/delete", fmt::format(R"({{"state_id":"{}"}})", id));
    EXPECT_EQ(refused.status, 503);
    EXPECT_NE(refused.body.find("The store of states fails"), std::string::npos) << refused.body;
  }
  EXPECT_NE(rig.get("/v1/state/list").body.find(R"("state_id":"p")"), std::string::npos);
}

TEST(StateFiles, AreNamedByTheirFileInTheUrlOrInAHeader) {
  AdminRig rig;
  const std::string upload = form(R"(name="file"; filename="p.st")", "x");
  Headers header;
  header.set("X-RWKV-State-Id", "p.st");
  for (const auto& [path, headers] :
       {std::pair{"/v1/state/delete?state_id=p", Headers()}, {"/v1/state/delete", header}}) {
    rig.post("/v1/state/upload", upload, form_header());
    EXPECT_EQ(rig.send("DELETE", path, {}, headers).status, 200) << path;
  }
  const Reply torn = rig.send("DELETE", "/v1/state/delete?state_id=q", R"({"state_id":"p"})");
  EXPECT_EQ(torn.status, 400);
  EXPECT_THAT(torn.body, ::testing::HasSubstr("'p' and 'q'"));
}

TEST(StateFiles, ChatsThatStartFromThemArePlainUnlessToldToThink) {
  ServerRig rig({}, nullptr, [](ServedModel& model) { model.thinks = true; });
  rig.models.add_state("tiny-rwkv7", {.name = "p"});
  const auto prompt = [&](const char* more) {
    const std::string body = R"({"messages":[{"role":"user","content":"hi"}])";
    EXPECT_EQ(rig.post("/v1/chat/completions", body + more + "}").status, 200);
    return rig.tokenizer.decode(rig.last_ask().prompt);
  };
  EXPECT_EQ(prompt(""), "User: hi\n\nAssistant: <think>\n</think");
  EXPECT_EQ(prompt(R"(,"state_id":"p.pth")"), "User: hi\n\nAssistant:");
  EXPECT_EQ(prompt(R"(,"state_id":"p","think":false)"), "User: hi\n\nAssistant: <think>\n</think");
  EXPECT_EQ(prompt(R"(,"state_id":"p","think_type":"free")"), "User: hi\n\nAssistant: <think");
}

TEST(StateFiles, Errors) {
  AdminRig rig;
  for (const std::string& body :
       {std::string(), std::string("--XX--"), std::string("x"), form(R"(name="file")", "x"),
        form(R"(name="other"; filename="a.st")", "x"), form(R"(name="file"; filename="a.st")", "bad"),
        form(R"(filename="a.st")", "x"),
        std::string("--XX\r\nContent-Disposition: form-data; name=\"file\"")}) {
    const Reply reply = rig.post("/v1/state/upload", body, form_header());
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_TRUE(reply.body.starts_with(R"({"error":")")) << reply.body;
  }
  EXPECT_EQ(rig.post("/v1/state/upload", "{}").status, 400);
  const std::string file = form(R"(name="file"; filename="a.st")", "x");
  const std::string whole = file.substr(0, file.rfind("--XX"));
  const std::pair<std::string, const char*> further[] = {
      {form(R"(name="file"; filename="b.st")", "y"), "a second 'file'"},
      {form(R"(name="state_id")", "y"), "a field 'state_id'; wanted 'file' alone"}};
  for (const auto& [part, named] : further) {
    const Reply reply = rig.post("/v1/state/upload", whole + part, form_header());
    EXPECT_EQ(reply.status, 400) << named;
    EXPECT_NE(reply.body.find(named), std::string::npos) << reply.body;
  }
  EXPECT_EQ(rig.post("/v1/state/delete", "{}").status, 400);
  EXPECT_EQ(rig.get("/v1/state/list").body, R"({"object":"list","data":[]})");
}

TEST(StateFiles, MayBeLargerThanOtherBodiesForThoseWithTheKey) {
  ServerOptions options;
  options.limits.max_body_bytes = 1000;
  options.password = "p";
  const ServerRig rig(options);
  const std::string large(5000, 'x');
  Headers key = form_header();
  const Reply unkeyed = rig.post("/v1/state/upload", large, key);
  EXPECT_EQ(unkeyed.status, 401) << "it is the key that is missing";
  EXPECT_THAT(unkeyed.body, ::testing::HasSubstr("at most 1000 bytes"));
  key.set("Authorization", "Bearer p");
  EXPECT_EQ(rig.post("/v1/state/upload", large, key).status, 400) << "read, and found to be no form";
  EXPECT_EQ(rig.post("/v1/completions", large, key).status, 413);
}

TEST(Admin, AnEndTokenOfAModelEndsItsChats) {
  AdminRig rig;
  EXPECT_EQ(
      rig.post("/loadmodel", R"({"model_filename":"m","model_viewname":"E","endtoken":"\\n\nBob's \\'x\\':",)"
                             R"("template":"x","rope_theta":1})")
          .body,
      kSuccess);
  rig.post("/v1/chat/completions", R"({"model":"E","messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(rig.last_ask().stop.texts, (std::vector<std::string>{"\n\nUser:", "\nUser:", "\n\nBob's 'x':"}));
  EXPECT_EQ(rig.post("/loadmodel", R"({"model_filename":"m","endtoken":"\\x"})").status, 400);
  EXPECT_EQ(rig.post("/loadmodel", R"({"model_filename":"m","endtoken":"x\\"})").status, 400);
  EXPECT_EQ(rig.post("/loadmodel", R"({"model_filename":"m","template":7})").status, 400);
}

// Two loaded models with engines of their own.
class TwoModels : public ServerRig {
 public:
  TwoModels() : second([](const Ask&) { return hello(); }) {
    auto facts = std::make_shared<ServedModel>(*model);
    facts->id = "second";
    facts->engine = &second;
    models.add(facts);
    other = facts;
  }
  ~TwoModels() { server.reset(); }

  int64_t requests_total() const { return member_of(get("/v1/queue/status").body, "total_requests"); }
  // The number of that name, which stands once in the body.
  static int64_t member_of(const std::string& body, const std::string& name) {
    const std::string key = "\"" + name + "\":";
    const size_t at = body.find(key);
    return at == std::string::npos ? -1 : std::stoll(body.substr(at + key.size()));
  }

  ScriptedEngine second;
  ServedModelPtr other;
};

constexpr const char* kToSecond = R"({"model":"second","prompt":"x"})";

TEST(LeavingModels, TheirCountersStayInTheTotals) {
  TwoModels rig;
  rig.post("/v1/completions", R"({"model":"tiny-rwkv7","prompt":"x"})");
  rig.post("/v1/completions", kToSecond);
  EXPECT_EQ(rig.requests_total(), 2);
  rig.models.remove("second");
  EXPECT_EQ(rig.requests_total(), 2);
  rig.models.retire(*rig.other);
  EXPECT_EQ(rig.requests_total(), 2);
  rig.models.retire(*rig.other);
  EXPECT_EQ(rig.requests_total(), 2) << "retired once, counted once";
  rig.models.add(rig.other);
  rig.models.add(std::make_shared<ServedModel>(*rig.other));
  EXPECT_EQ(rig.requests_total(), 3) << "the engine is back, and counts for itself once";
}

TEST(LeavingModels, WhatTheyRunIsCountedAndCanBeCancelled) {
  TwoModels rig;
  rig.second.hold_after(1);
  std::thread client([&] { EXPECT_EQ(rig.post("/v1/completions", kToSecond).status, 200); });
  while (rig.second.stats().requests.empty()) std::this_thread::yield();
  rig.models.remove("second");
  const std::string status = rig.get("/v1/queue/status").body;
  EXPECT_TRUE(
      status.starts_with(R"({"waiting":0,"prefill":0,"decode":1,"total_active":1,"available_slots":8,)"))
      << status;
  EXPECT_NE(rig.get("/metrics").body.find("fulmar_slots 9\n"), std::string::npos);
  EXPECT_EQ(rig.post("/v1/server/stop", "{}").status, 200);
  client.join();
  EXPECT_EQ(rig.second.cancelled(), 1);
}

TEST(LeavingModels, EndWithTheServer) {
  TwoModels rig;
  rig.second.hold_after(1);
  std::thread client([&] { rig.post("/v1/completions", kToSecond); });
  while (rig.second.stats().requests.empty()) std::this_thread::yield();
  rig.models.remove("second");
  EXPECT_FALSE(rig.server->stop(std::chrono::milliseconds(1)));
  client.join();
  EXPECT_EQ(rig.second.cancelled(), 1);
}

TEST(EqualWeights, SessionsAreListedOnce) {
  TwoModels rig;
  const SessionLadder ladder("equal", nullptr, {});
  for (ScriptedEngine* engine : {&rig.engine, &rig.second}) {
    engine->share_ladder(&ladder);
    ASSERT_TRUE(engine->import_session({}, "s", {}).ok());
  }
  EXPECT_EQ(rig.member_of(rig.post("/state/status", "{}").body, "total_sessions"), 1);
  const std::string objects = rig.get("/v1/sessions").body;
  EXPECT_EQ(objects.find("\"id\""), objects.rfind("\"id\"")) << objects;
  rig.second.share_ladder(nullptr);
  EXPECT_EQ(rig.member_of(rig.post("/state/status", "{}").body, "total_sessions"), 2);
}

TEST(Admin, ADeletedResponseTakesItsStateWithItWhoseModelIsNotLoaded) {
  AdminRig rig;
  const std::string made = rig.post("/v1/responses", R"({"input":"x"})").body;
  const std::string id = parse_json(made)->find("id")->as_string();
  EXPECT_EQ(rig.post("/removemodel", "{}").body, kSuccess);
  EXPECT_EQ(rig.send("DELETE", "/v1/responses/" + id).status, 200);
  EXPECT_EQ(rig.admin.forgotten, std::vector<std::string>{"resp:" + id});
  EXPECT_EQ(rig.send("DELETE", "/v1/responses/" + id).status, 404);
  EXPECT_EQ(rig.admin.forgotten.size(), 1u) << "nothing is looked for that is not there";
}

}  // namespace
}  // namespace fulmar::testing
