// llama.cpp's own routes.
#include <gmock/gmock.h>

#include "server/admin_rig.h"

namespace fulmar::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LlamaCompletion, GoesOnWithAText) {
  ServerRig rig;
  const std::string body =
      rig.post("/completion",
               R"({"prompt":"x","n_predict":3,"temperature":0.2,"stop":["Z"],"cache_prompt":true})")
          .body;
  EXPECT_THAT(
      body,
      HasSubstr(
          R"({"index":0,"content":"Hello wor","tokens":[],"id_slot":-1,"stop":true,"model":"tiny-rwkv7",)"
          R"("tokens_predicted":3,"tokens_evaluated":1,"tokens_cached":0,"truncated":false,)"
          R"("stop_type":"limit","stopping_word":"","prompt":"x","timings":{)"));
  EXPECT_THAT(rig.last_ask().stop.texts, ElementsAre("Z"));
  rig.post("/completion", R"({"prompt":["ab",67],"n_predict":1})");
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt), "abB");
  const auto several = parse_json(rig.post("/completion", R"({"prompt":["a","b"]})").body);
  ASSERT_TRUE(several.ok());
  EXPECT_EQ(several->as_array().size(), 2u);
}

TEST(LlamaCompletion, StreamsWithoutADoneMark) {
  ServerRig rig({}, [](const Ask&) { return Script{.pieces = {"a", "b"}, .stop_text = "Z"}; });
  const std::string stream = rig.post("/completion", R"({"prompt":"x","stream":true})").body;
  EXPECT_EQ(stream.find("[DONE]"), std::string::npos);
  EXPECT_THAT(stream, HasSubstr(R"(data: {"index":0,"content":"a","tokens":[],"stop":false,"id_slot":-1})"));
  EXPECT_THAT(stream, HasSubstr(R"("stop":true,"model":"tiny-rwkv7","tokens_predicted":2,)"));
  EXPECT_THAT(stream, HasSubstr(R"("stop_type":"word","stopping_word":"Z")"));
}

TEST(LlamaCompletion, RefusesByName) {
  const ServerRig rig;
  const auto refusal = [&](const char* body) {
    const Reply reply = rig.post("/completion", body);
    EXPECT_EQ(reply.status, 400) << body;
    return reply.body;
  };
  EXPECT_THAT(refusal("{}"), HasSubstr("'prompt' is required"));
  EXPECT_THAT(refusal(R"({"prompt":""})"), HasSubstr("'prompt' is required"));
  EXPECT_THAT(refusal(R"({"prompt":[70000]})"), HasSubstr("ids of 0 to 65535"));
  EXPECT_THAT(refusal(R"({"prompt":"x","grammar":"root ::= x"})"), HasSubstr("'grammar'"));
  EXPECT_THAT(refusal(R"({"prompt":"x","n_probs":3})"), HasSubstr("'n_probs'"));
  EXPECT_THAT(refusal(R"({"prompt":"x","n_predict":"all"})"), HasSubstr("'n_predict'"));
  EXPECT_EQ(rig.post("/completion", R"({"prompt":"x","n_probs":0,"grammar":null})").status, 200);
}

TEST(LlamaInfill, PutsThePiecesInOrder) {
  ServerRig rig;
  const Reply reply = rig.post("/infill", R"({"input_prefix":"P","input_suffix":"S","prompt":"q",)"
                                          R"("input_extra":[{"filename":"f.c","text":"T"}]})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt),
            "\u273Fprefix\u273F\u273Fsuffix\u273FS\u273Fmiddle\u273Ff.c\nT\nPq");
  EXPECT_EQ(rig.post("/infill", R"({"input_prefix":"P"})").status, 400);
}

}  // namespace
}  // namespace fulmar::testing
