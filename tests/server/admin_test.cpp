// Models and tuned states by name, and their administration at the HTTP boundary.
#include <fmt/format.h>

#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

// Loads nothing: names that hold "bad" fail, others appear in the registry.
class NamesOnly : public ModelAdmin {
 public:
  explicit NamesOnly(ServerRig& rig) : rig_(rig) {}
  bool post(std::function<void()> job) override {
    job();
    return true;
  }
  Status check_load(const ModelLoad& load) override {
    if (load.precision != "nf4") return {};
    return Error{ErrorKind::unsupported, "model_strategy is 'nf4'"};
  }
  Status load_model(const ModelLoad& load) override {
    if (load.path == "bad") return Error{ErrorKind::not_found, "no file 'bad'"};
    auto facts = std::make_shared<ServedModel>(*rig_.model);
    facts->id = load.name;
    facts->default_temperature = load.default_temperature;
    rig_.models.add(facts);
    return {};
  }
  bool remove_model(const std::string& name) override {
    bool found = false;
    for (const ServedModelPtr& model : rig_.models.all()) {
      if (name.empty() || model->id == name) found |= rig_.models.remove(model->id);
    }
    return found;
  }
  Status load_state(const StateLoad& load) override {
    const ServedModelPtr model = rig_.models.find({}, false);
    if (!model || load.path == "bad") return Error{ErrorKind::corrupt, "bad state"};
    rig_.models.add_state(model->id, {load.name, load.default_temperature, load.default_top_p});
    return {};
  }
  void remove_states() override { rig_.models.clear_states(); }
  std::vector<std::string> available() const override { return {"one", "two"}; }
  Status load_available(const std::string& id) override {
    if (id == "one") return {};
    return Error{ErrorKind::not_found, "no such model"};
  }

 private:
  ServerRig& rig_;
};

class AdminRig : public ServerRig {
 public:
  AdminRig() : admin_(*this) {
    server.reset();
    auto started = Server::start({.port = 0}, models, &admin_);
    EXPECT_TRUE(started.ok());
    server = std::move(*started);
  }
  ~AdminRig() { server.reset(); }

 private:
  NamesOnly admin_;
};

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

TEST(Admin, Errors) {
  AdminRig rig;
  const std::tuple<const char*, const char*, int, const char*> cases[] = {
      {"/loadmodel", "{}", 400, R"({"detail":"'model_filename' is required"})"},
      {"/loadmodel", R"({"model_filename":"bad"})", 500, R"({"detail":"no file 'bad'"})"},
      {"/loadmodel", R"({"model_filename":"m","model_strategy":"nf4"})", 400,
       R"({"detail":"model_strategy is 'nf4'"})"},
      {"/loadmodel", R"({"model_filename":7})", 400, nullptr},
      {"/loadstatemodel", R"({"state_filename":"bad","state_viewname":"S"})", 500,
       R"({"detail":"State file is incorrect. check filename or tensor size."})"},
      {"/loadstatemodel", R"({"state_filename":"s"})", 400, R"({"detail":"'state_viewname' is required"})"},
      {"/removemodel", R"({"model_viewname":"X"})", 404, R"({"detail":"The model 'X' is not loaded"})"},
  };
  for (const auto& [path, body, status, wanted] : cases) {
    const Reply reply = rig.post(path, body);
    EXPECT_EQ(reply.status, status) << path << body;
    if (wanted) EXPECT_EQ(reply.body, wanted);
  }
  EXPECT_EQ(rig.get("/models").body, R"([{"object":"models","id":"tiny-rwkv7"}])");
  const ServerRig fixed;
  EXPECT_EQ(fixed.post("/loadmodel", R"({"model_filename":"m"})").status, 501);
}

}  // namespace
}  // namespace fulmar::testing
