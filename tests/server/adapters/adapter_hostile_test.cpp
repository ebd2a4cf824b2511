// Golden hostile files as uploads: each gets its answer, and those that are refused change nothing.
#include <gmock/gmock.h>

#include <string>

#include "adapters/adapter_goldens.h"
#include "server/adapters/adapter_rig.h"

namespace fulmar::testing {
namespace {

using support::Json;

// A server over the golden files' model.
class HostileRig : public ServerRig {
 public:
  HostileRig(const Json& golden, const std::string& digest)
      : ServerRig({}, nullptr, [&](ServedModel& facts) {
          const std::string name = golden["model"];
          AdapterBase base{test::open_base(name).shapes, [digest]() -> Result<std::string> { return digest; },
                           [name]() { return open_checkpoint(support::shared_folder() / "models" / name); }};
          facts.adapters = std::make_shared<AdapterShelf>(*facts.engine, std::move(base));
        }) {}
};

std::string number_text(const Json& number) {
  return number.is_string() ? number.get<std::string>() : std::to_string(number.get<double>());
}

std::string form_of(const Json& one) {
  std::vector<FormField> fields = {{"adapter_id", "", "a"}};
  for (const auto& [name, text] : one["files"].items()) {
    const std::vector<std::byte> bytes = support::from_base64(text.get<std::string>());
    fields.push_back({"file", std::filesystem::path(name).filename().string(),
                      std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
  }
  if (one["options"].contains("alpha")) fields.push_back({"alpha", "", number_text(one["options"]["alpha"])});
  return form_body(fields);
}

TEST(AdapterHostile, EachUploadGetsItsAnswerAndRefusedOnesChangeNothing) {
  const Json golden = test::read_hostile();
  if (golden.is_null()) GTEST_SKIP() << "no golden files here";
  const Headers type = header("Content-Type", "multipart/form-data; boundary=X");
  std::string usual;
  for (size_t i = 0; i < 32; i++) usual += "ab";
  const HostileRig rig(golden, usual);
  size_t refused = 0;
  for (const Json& one : golden["cases"]) {
    const std::string name = one["name"];
    SCOPED_TRACE(name);
    const bool other = one["options"].contains("base");
    const Reply reply =
        other ? HostileRig(golden, one["options"]["base"]).post("/v1/adapters", form_of(one), type)
              : rig.post("/v1/adapters", form_of(one), type);
    EXPECT_EQ(reply.status, one["want"] == "load" ? 200 : 400) << reply.body;
    if (one["want"] == "load") {
      rig.send("DELETE", "/v1/adapters", R"({"adapter_id":"a"})");
    } else {
      EXPECT_GT(error_text(reply).size(), 10u);
      ++refused;
    }
    const auto now = parse_json(rig.get("/v1/adapters").body);
    EXPECT_TRUE(now->find("data")->as_array().empty());
    EXPECT_EQ(now->find("ram_bytes")->as_int64(), 0);
  }
  EXPECT_GE(refused, 70u);
}

}  // namespace
}  // namespace fulmar::testing
