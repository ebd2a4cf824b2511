// What a response was asked with, as a list that clients read by pages, whatever has become of the response.
#include <gmock/gmock.h>

#include "grammar/schema_values.h"
#include "server/responses/response_items.h"
#include "server/server_rig.h"
#include "support/temp_folder.h"

namespace fulmar::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string id_of(const Reply& reply) { return parse_json(reply.body)->find("id")->as_string(); }

TEST(ResponseItems, AreListedAsTheyWereSent) {
  const ServerRig rig;
  const std::string id = id_of(rig.post("/v1/responses", R"({"input":"hi"})"));
  const Reply items = rig.get("/v1/responses/" + id + "/input_items");
  EXPECT_EQ(items.status, 200);
  EXPECT_THAT(items.body,
              HasSubstr(R"("type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]})"));
  EXPECT_EQ(rig.get("/v1/responses/resp_0/input_items").status, 404);
  EXPECT_EQ(rig.get("/v1/responses/" + id + "/other").status, 404);
  EXPECT_EQ(rig.get("/v1/responses/" + id + "/input_items?limit=0").status, 400);
  for (const char* order : {"asc", "desc"}) {
    EXPECT_EQ(rig.get("/v1/responses/" + id + "/input_items?order=" + order).status, 200);
  }
  const Reply wrong = rig.get("/v1/responses/" + id + "/input_items?order=foo");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.body, HasSubstr("'order' is 'foo'; wanted asc or desc"));
  const Reply unknown = rig.get("/v1/responses/" + id + "/input_items?after=nope");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_THAT(unknown.body, AllOf(HasSubstr("'after' is 'nope'"), HasSubstr(R"("param":"after")")));
}

TEST(ResponseItems, ArePaged) {
  const auto input =
      parse_json(R"([{"role":"user","content":"a","id":"i0"},{"type":"function_call","id":"i1"},)"
                 R"({"role":"user","content":[],"id":"i2"}])");
  const std::string items = input_items_json("resp_x", *input);
  const auto ids = [&](const ItemPage& page) {
    const auto written = items_page_json(items, page);
    if (!written) return std::string("unknown");
    const auto list = parse_json(*written);
    std::string text;
    for (const JsonValue& item : list->find("data")->as_array()) text += item.find("id")->as_string() + " ";
    return text + (list->find("has_more")->as_bool() ? "more" : "");
  };
  EXPECT_EQ(ids({}), "i2 i1 i0 ");
  EXPECT_EQ(ids({.limit = 2, .ascending = true}), "i0 i1 more");
  EXPECT_EQ(ids({.limit = 2, .ascending = true, .after = "i1"}), "i2 ");
  EXPECT_EQ(ids({.after = "i0"}), "");
  EXPECT_EQ(ids({.after = "none"}), "unknown");
}

// Whoever finds a response finds its input, and the same one throughout.
TEST(ResponseItems, AreShownAtEveryStepOfAResponse) {
  const test::TempFolder folder;
  ServerOptions options;
  options.responses_db = (folder.path() / "responses.db").string();
  std::string made, cancelled, input, input_of_cancelled;
  {
    ServerRig rig(options);
    rig.engine.hold_after(1);
    made = "/v1/responses/" + id_of(rig.post("/v1/responses", R"({"input":"hi","background":true})"));
    cancelled = "/v1/responses/" + id_of(rig.post("/v1/responses", R"({"input":"ho","background":true})"));
    input = rig.get(made + "/input_items").body;
    EXPECT_THAT(input, HasSubstr(R"({"type":"input_text","text":"hi"})")) << "it runs";
    input_of_cancelled = rig.get(cancelled + "/input_items").body;
    rig.server->stop(std::chrono::milliseconds(0));
  }
  options.loading = true;
  ServerRig rig(options);
  EXPECT_EQ(rig.get(made + "/input_items").body, input) << "it waits";
  EXPECT_EQ(rig.post(cancelled + "/cancel", "").status, 200);
  EXPECT_EQ(rig.get(cancelled + "/input_items").body, input_of_cancelled) << "it was never made";
  rig.server->loaded();
  while (rig.get(made).body.find(R"("status":"completed")") == std::string::npos) std::this_thread::yield();
  EXPECT_EQ(rig.get(made + "/input_items").body, input) << "it has ended";
  EXPECT_EQ(rig.send("DELETE", made).status, 200);
  EXPECT_EQ(rig.get(made + "/input_items").status, 404);
}

}  // namespace
}  // namespace fulmar::testing
