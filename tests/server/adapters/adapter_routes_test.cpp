// The routes of adapters at the HTTP boundary: answers to the byte, whose an adapter is, and what is refused.
#include <gmock/gmock.h>

#include "server/adapters/adapter_rig.h"
#include "server/admin_rig.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string version_of(const Reply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  const auto json = parse_json(reply.body);
  return json.ok() && json->find("version") ? json->find("version")->as_string() : std::string();
}

TEST(AdapterRoutes, AnswerAsRwkvLightningDoes) {
  const AdapterRig rig;
  const Reply empty = rig.get("/v1/adapters");
  EXPECT_EQ(empty.body,
            R"({"data":[],"ram_hits":0,"gpu_hits":0,"gpu_misses":0,"uploads":0,"h2d_ms":0.0,"ram_bytes":0,)"
            R"("gpu_bytes":0,"gpu_peak_bytes":0})");
  const Reply added = rig.upload("task-a", miss_file(0.5f));
  const std::string version = version_of(added);
  EXPECT_EQ(version.size(), 64u);
  EXPECT_EQ(added.body, R"({"version":")" + version + R"(","adapter_id":"task-a"})");
  EXPECT_THAT(rig.listed(),
              HasSubstr(R"({"data":[{"id":"task-a","version":")" + version + R"(","manifest":{)"));
  EXPECT_THAT(rig.listed(), HasSubstr(R"("ram_hits":0)"));
  EXPECT_THAT(rig.listed(), HasSubstr(R"("ram_bytes":512)"));
  const Reply gone = rig.send("DELETE", "/v1/adapters", R"({"adapter_id":"task-a"})");
  EXPECT_EQ(gone.body, R"({"deleted":true})");
  EXPECT_EQ(rig.send("DELETE", "/v1/adapters", R"({"adapter_id":"task-a"})").body, R"({"deleted":true})");
  EXPECT_EQ(rig.listed(), empty.body);
}

TEST(AdapterRoutes, ReadAPathBelowTheRootAlone) {
  const AdapterRig rig;
  AdapterRig::keep("sub/miss.safetensors", miss_file(0.25f));
  EXPECT_EQ(rig.post("/v1/adapters", R"({"adapter_id":"a","path":"sub/miss.safetensors"})").status, 200);
  for (const std::string path : {"../x", "/etc/passwd", "sub/../../x"}) {
    const Reply reply = rig.post("/v1/adapters", R"({"adapter_id":"b","path":")" + path + R"("})");
    EXPECT_EQ(reply.status, 400);
    EXPECT_THAT(reply.body, HasSubstr("lies outside of the folder for adapters"));
  }
  EXPECT_THAT(rig.post("/v1/adapters", R"({"adapter_id":"b","path":"none"})").body,
              HasSubstr("is not there"));
  std::error_code error;
  std::filesystem::create_symlink("/etc/passwd", AdapterRig::root() / "link", error);
  EXPECT_THAT(rig.post("/v1/adapters", R"({"adapter_id":"b","path":"link"})").body, HasSubstr("outside"));
  EXPECT_THAT(rig.listed(), Not(HasSubstr(R"("id":"b")")));
}

TEST(AdapterRoutes, EqualContentIsAHitUnderAnyId) {
  const AdapterRig rig;
  const std::string version = version_of(rig.upload("a", miss_file(0.5f)));
  EXPECT_EQ(version_of(rig.upload("a", miss_file(0.5f))), version);
  EXPECT_EQ(version_of(rig.upload("b", miss_file(0.5f))), version);
  EXPECT_THAT(rig.listed(), HasSubstr(R"("ram_hits":2)"));
  EXPECT_THAT(rig.listed(), HasSubstr(R"("ram_bytes":512)"));
  const std::string other = version_of(rig.upload("a", miss_file(0.75f)));
  EXPECT_NE(other, version);
  EXPECT_THAT(rig.listed(), HasSubstr(R"("ram_bytes":1024)"));
  rig.send("DELETE", "/v1/adapters", R"({"adapter_id":"a","adapter_version":")" + version + R"("})");
  EXPECT_THAT(rig.listed(), HasSubstr(R"("id":"a","version":")" + other));
  EXPECT_THAT(rig.listed(), Not(HasSubstr(R"("id":"a","version":")" + version)));
  EXPECT_THAT(rig.listed(), HasSubstr(R"("id":"b","version":")" + version));
}

TEST(AdapterRoutes, TakeAlphaOrScaleBesideAFileThatSaysNeither) {
  const AdapterRig rig;
  const std::string file = lora_file(0.5f);
  EXPECT_THAT(error_text(rig.upload("a", file)), HasSubstr("give alpha or scale"));
  const auto with = [&](const std::string& name, const std::string& value) {
    return rig.upload({{"adapter_id", "", "a"}, {"f", "a.safetensors", file}, {name, "", value}});
  };
  const std::string by_alpha = version_of(with("alpha", "4"));
  EXPECT_EQ(version_of(with("scale", "2")), by_alpha);
  EXPECT_NE(version_of(with("scale", "3")), by_alpha);
  EXPECT_EQ(version_of(rig.upload(
                {{"adapter_id", "", "a"}, {"f", "a.safetensors", file}, {"g", "a.json", R"({"alpha":4})"}})),
            by_alpha);
  AdapterRig::keep("plain.safetensors", file);
  EXPECT_EQ(
      version_of(rig.post("/v1/adapters", R"({"adapter_id":"p","path":"plain.safetensors","scale":2})")),
      by_alpha);
  AdapterRig::keep("beside.safetensors", file);
  AdapterRig::keep("beside.json", R"({"scale":2})");
  EXPECT_EQ(version_of(rig.post("/v1/adapters", R"({"adapter_id":"p","path":"beside.safetensors"})")),
            by_alpha);
  for (const auto& [name, value] :
       {std::pair("alpha", "x"), {"alpha", "1e9"}, {"scale", ""}, {"alpha", "nan"}, {"sclae", "2"}}) {
    EXPECT_EQ(with(name, value).status, 400) << name << " " << value;
  }
  EXPECT_EQ(
      rig.upload({{"adapter_id", "", "m"}, {"f", "m.safetensors", miss_file(1)}, {"alpha", "", "2"}}).status,
      400);
}

TEST(AdapterRoutes, RefuseFormsInRwkvLightningsWords) {
  const AdapterRig rig;
  const std::string file = miss_file(0.5f);
  EXPECT_EQ(error_text(rig.upload({{"f", "a.pth", file}})), "missing adapter_id");
  EXPECT_EQ(error_text(rig.upload({{"adapter_id", "", "a"}})), "missing adapter PTH");
  EXPECT_EQ(error_text(rig.upload({{"adapter_id", "", "a"}, {"m", "checkpoint.json", "{}"}})),
            "missing adapter PTH");
  EXPECT_EQ(error_text(rig.upload({{"adapter_id", "", "a"}, {"f", "a.pth", file}, {"g", "b.pth", file}})),
            "duplicate upload file");
  EXPECT_EQ(error_text(rig.upload({{"adapter_id", "", "a"},
                                   {"f", "a.pth", file},
                                   {"g", "checkpoint.json", "{}"},
                                   {"h", "c.pth", file}})),
            "upload requires one PTH and optional legacy checkpoint.json");
  EXPECT_EQ(error_text(rig.upload({{"adapter_id", "", "a"},
                                   {"f", "a.pth", file},
                                   {"g", "checkpoint.json", std::string((size_t{8} << 20) + 1, ' ')}})),
            "checkpoint metadata too large");
  EXPECT_EQ(error_text(rig.send("DELETE", "/v1/adapters", "{}")), "missing adapter_id");
  EXPECT_EQ(error_text(rig.post("/v1/adapters", R"({"path":"x"})")), "missing adapter_id");
  for (const std::string id : {".", "..", "a/b", "a b"}) EXPECT_EQ(rig.upload(id, file).status, 400) << id;
  EXPECT_EQ(rig.upload(std::string(129, 'x'), file).status, 400);
  EXPECT_EQ(rig.upload("wide", lora_file(0.5f, 65)).status, 400);
  EXPECT_THAT(rig.listed(), HasSubstr(R"({"data":[],)"));
}

TEST(AdapterRoutes, TheHostsBudgetIsKept) {
  ServerOptions options;
  options.adapters.host_bytes = 1024;
  const AdapterRig rig(options);
  EXPECT_EQ(rig.upload("a", miss_file(0.25f)).status, 200);
  EXPECT_EQ(rig.upload("b", miss_file(0.5f)).status, 200);
  const Reply full = rig.upload("c", miss_file(0.75f));
  EXPECT_EQ(full.status, 507);
  EXPECT_EQ(error_text(full), "adapter RAM budget exceeded");
  EXPECT_EQ(rig.upload("c", miss_file(0.5f)).status, 200);  // a content that is there already
  rig.send("DELETE", "/v1/adapters", R"({"adapter_id":"a"})");
  EXPECT_EQ(rig.upload("d", miss_file(0.75f)).status, 200);
}

TEST(AdapterRoutes, AnAdapterIsItsKeysAndTheCommandLinesAreEverybodys) {
  ServerOptions options;
  options.api_keys.emplace();
  for (const std::string name : {"ann", "bob", "root"}) {
    options.api_keys->push_back({.name = name, .hash = hash_of_key(name), .admin = name == "root"});
  }
  const AdapterRig rig(options);
  const auto as = [](const std::string& key) { return header("Authorization", "Bearer " + key); };
  EXPECT_EQ(rig.upload("x", miss_file(0.25f)).status, 401);
  EXPECT_EQ(rig.upload("shared", miss_file(0.25f), as("root")).status, 200);
  EXPECT_EQ(rig.upload("anns", miss_file(0.5f), as("ann")).status, 200);
  EXPECT_THAT(rig.listed(as("ann")), HasSubstr(R"("id":"anns")"));
  EXPECT_THAT(rig.listed(as("bob")), Not(HasSubstr(R"("id":"anns")")));
  EXPECT_THAT(rig.listed(as("bob")), HasSubstr(R"("id":"shared")"));
  EXPECT_THAT(rig.get("/v1/models", as("bob")).body, Not(HasSubstr("anns")));
  EXPECT_THAT(rig.get("/lora-adapters", as("bob")).body, Not(HasSubstr(R"("id":1)")));
  for (const std::string id : {"shared", "anns"}) {
    rig.send("DELETE", "/v1/adapters", R"({"adapter_id":")" + id + R"("})", as("bob"));
    EXPECT_EQ(rig.post("/v1/unload_lora_adapter", R"({"lora_name":")" + id + R"("})", as("bob")).status, 404);
  }
  EXPECT_THAT(rig.listed(as("ann")), HasSubstr(R"("id":"shared")"));
  EXPECT_THAT(rig.listed(as("ann")), HasSubstr(R"("id":"anns")"));
  EXPECT_EQ(rig.upload("shared", miss_file(1), as("bob")).status, 200);  // its own, of the same name
  EXPECT_THAT(rig.listed(as("ann")), Not(HasSubstr(R"("owner":"bob")")));
  EXPECT_EQ(rig.post("/lora-adapters", "[]", as("bob")).status, 403);
  EXPECT_EQ(rig.post("/lora-adapters", "[]", as("root")).status, 200);
}

TEST(LoraRoutes, AnswerAsVllmDoes) {
  const AdapterRig rig;
  AdapterRig::keep("v.safetensors", miss_file(0.5f));
  const auto load = [&](const std::string& body) { return rig.post("/v1/load_lora_adapter", body); };
  const auto error = [](int code, const std::string& type, const std::string& text) {
    return R"({"object":"error","message":")" + text + R"(","type":")" + type + R"(","param":null,"code":)" +
           std::to_string(code) + "}";
  };
  EXPECT_EQ(load(R"({"lora_name":"a"})").body,
            error(400, "InvalidUserInput", "Both 'lora_name' and 'lora_path' must be provided."));
  const Reply loaded = load(R"({"lora_name":"a","lora_path":"v.safetensors"})");
  EXPECT_EQ(loaded.status, 200);
  EXPECT_EQ(loaded.body, "Success: LoRA adapter 'a' added successfully.");
  EXPECT_EQ(load(R"({"lora_name":"a","lora_path":"v.safetensors"})").body,
            error(400, "InvalidUserInput", "The lora adapter 'a' has already been loaded."));
  EXPECT_EQ(load(R"({"lora_name":"b","lora_path":"none"})").status, 404);
  EXPECT_THAT(rig.get("/v1/models").body, HasSubstr(R"({"id":"a","object":"model","created":)"));
  EXPECT_THAT(rig.get("/v1/models/a").body, HasSubstr(R"("parent":"tiny-rwkv7"})"));
  EXPECT_EQ(rig.post("/v1/unload_lora_adapter", R"({"lora_name":"a"})").body,
            "Success: LoRA adapter 'a' removed successfully.");
  const Reply unknown = rig.post("/v1/unload_lora_adapter", R"({"lora_name":"a"})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body, error(404, "NotFoundError", "The lora adapter 'a' cannot be found."));
  EXPECT_EQ(rig.get("/v1/models/a").status, 404);
}

TEST(LoraRoutes, AreForTheOwnHostUnlessAdapterAdminIsSet) {
  ServerOptions options;
  options.host = "0.0.0.0";
  options.password = "p";
  const Headers key = header("Authorization", "Bearer p");
  for (const bool allowed : {false, true}) {
    options.adapters.load_by_name = allowed;
    const AdapterRig rig(options);
    AdapterRig::keep("v.safetensors", miss_file(0.5f));
    const auto answer =
        fetch("POST", "http://127.0.0.1:" + std::to_string(rig.server->port()) + "/v1/load_lora_adapter", key,
              R"({"lora_name":"a","lora_path":"v.safetensors"})");
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->status, allowed ? 200 : 403) << answer->body;
  }
}

TEST(LoraRoutes, SetGlobalScalesAsLlamaCppDoes) {
  const AdapterRig rig;
  rig.upload("a", miss_file(0.25f));
  rig.upload("b", miss_file(0.5f));
  EXPECT_EQ(rig.get("/lora-adapters").body,
            R"([{"id":0,"path":"a.safetensors","scale":0.0},{"id":1,"path":"a.safetensors","scale":0.0}])");
  EXPECT_EQ(rig.post("/lora-adapters", R"([{"id":1,"scale":0.5}])").body, R"({"success":true})");
  EXPECT_THAT(rig.get("/lora-adapters").body, HasSubstr(R"("id":1,"path":"a.safetensors","scale":0.5)"));
  EXPECT_EQ(rig.post("/lora-adapters", R"([{"id":0,"scale":1}])").status, 200);
  EXPECT_THAT(rig.get("/lora-adapters").body, HasSubstr(R"("id":1,"path":"a.safetensors","scale":0.0)"));
  for (const std::string bad :
       {R"([{"id":2,"scale":1}])", R"([{"id":0,"scale":101}])", R"([{"id":0}])", "{}",
        R"([{"id":0,"scale":1},{"id":0,"scale":1}])", R"([{"id":0,"scale":1},{"id":1,"scale":1}])", "x"}) {
    EXPECT_EQ(rig.post("/lora-adapters", bad).status, 400) << bad;
  }
  EXPECT_THAT(rig.get("/lora-adapters").body, HasSubstr(R"("id":0,"path":"a.safetensors","scale":1.0)"));
}

// RWKV-Infer's adapter of a model: /loadmodel registers it at the global scale 1 for that model alone.
TEST(AdapterRoutes, AModelIsLoadedWithAnAdapter) {
  ServerOptions options;
  options.adapters.root = AdapterRig::root().string();
  AdminRig rig(options);
  auto facts = std::make_shared<ServedModel>(*rig.model);
  facts->adapters = std::make_shared<AdapterShelf>(rig.engine, adapter_base());
  rig.model = facts;
  AdapterRig::keep("tone.pth", lora_file(0.5f));
  AdapterRig::keep("bone.pth", miss_file(0.5f));
  const auto load = [&](const std::string& more) {
    return rig.post("/loadmodel", R"({"model_filename":"m","model_viewname":"M")" + more + "}");
  };
  EXPECT_EQ(load(R"(,"adapter_filename":"tone.pth","adapter_mode":"lora")").status, 200);
  EXPECT_EQ(rig.get("/lora-adapters").body, R"([{"id":0,"path":"tone.pth","scale":1.0}])");
  EXPECT_THAT(rig.get("/v1/adapters").body, HasSubstr(R"("parent":"M")"));
  EXPECT_THAT(rig.get("/v1/adapters").body, HasSubstr(R"("scale":2,)"));
  EXPECT_EQ(load(R"(,"adapter_filename":"bone.pth","adapter_mode":"bone")").status, 200);
  EXPECT_EQ(rig.get("/lora-adapters").body, R"([{"id":1,"path":"bone.pth","scale":1.0}])");
  for (const std::string bad : {R"(,"adapter_filename":"tone.pth")", R"(,"adapter_mode":"lora")",
                                R"(,"adapter_filename":"tone.pth","adapter_mode":"bone","adapter_scaling":1)",
                                R"(,"adapter_filename":"bone.pth","adapter_mode":"bone","adapter_scaling":1)",
                                R"(,"adapter_filename":"none","adapter_mode":"lora")",
                                R"(,"adapter_filename":"../x","adapter_mode":"lora")"}) {
    const int status = load(bad).status;
    EXPECT_TRUE(status == 400 || status == 404) << bad << status;
  }
  EXPECT_EQ(rig.get("/lora-adapters").body, R"([{"id":1,"path":"bone.pth","scale":1.0}])");
  EXPECT_EQ(load("").status, 200);
  EXPECT_EQ(rig.get("/lora-adapters").body, "[]");
}

TEST(AdapterRoutes, FiguresAreForPrometheusToo) {
  const AdapterRig rig;
  rig.upload("a", miss_file(0.25f));
  const std::string text = rig.get("/metrics").body;
  EXPECT_THAT(text, HasSubstr("fulmar_adapters_registered 1"));
  EXPECT_THAT(text, HasSubstr("fulmar_adapters_host_bytes 512"));
  for (const std::string name :
       {"fulmar_adapters_on_devices", "fulmar_adapters_device_bytes", "fulmar_adapter_hits_total",
        "fulmar_adapter_misses_total", "fulmar_adapter_loads_total", "fulmar_adapter_evictions_total"}) {
    EXPECT_THAT(text, HasSubstr(name + " 0"));
  }
}

}  // namespace
}  // namespace fulmar::testing
