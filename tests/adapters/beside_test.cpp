// What lies beside an adapter's file is read where the file does not say enough: alpha and scale of a
// low-rank pair, and the checkpoint.json of rwkv_lightning's older checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/adapter_goldens.h"
#include "adapters/source.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "files/pth_writer.h"

namespace fulmar {
namespace {

using namespace test;
namespace fs = std::filesystem;
using testing::HasSubstr;

class Beside : public testing::Test {
 protected:
  void SetUp() override {
    if (support::read_golden("adapters-files").is_null()) GTEST_SKIP() << "no golden files here";
  }
  fs::path copy(const std::string& form) const {
    fs::copy(forms() / form, folder_.path() / form);
    return folder_.path() / form;
  }
  static fs::path forms() { return support::shared_folder() / "models" / "adapters" / "forms"; }
  std::string refusal(const fs::path& path) const {
    const auto adapter = read_adapter(path);
    return adapter.ok() ? "read" : adapter.error().text;
  }

  TempFolder folder_;
};

TEST_F(Beside, AFileOfTheSameNameSaysAlphaOrScale) {
  for (const std::string form : {"rwkv-peft-lora.pth", "rwkv-peft-lora.safetensors", "web-rwkv-lora.st"}) {
    const fs::path path = copy(form);
    const std::string json = fs::path(form).stem().string() + ".json";
    fs::remove(folder_.path() / json);
    EXPECT_THAT(refusal(path), HasSubstr("give alpha or scale"));
    folder_.write(json, R"({"alpha": 4})");
    const auto beside = read_adapter(path), given = read_adapter(path, {.alpha = 4.0});
    ASSERT_TRUE(beside.ok()) << beside.error().text;
    EXPECT_EQ(digest_of(*beside), digest_of(*given));
    EXPECT_TRUE(beside->scale_known);
    const auto other = read_adapter(path, {.scale = 3.0});  // what is given goes before
    EXPECT_EQ(other->deltas[0].scale, 3);
    folder_.write(json, R"({"scale": 0.5})");
    EXPECT_EQ(read_adapter(path)->deltas[0].scale, 0.5);
  }
}

TEST_F(Beside, AWrongFileIsRefusedByName) {
  const fs::path path = copy("rwkv-peft-lora.pth");
  for (const auto& [text, words] : std::map<std::string, std::string>{
           {"[", "rwkv-peft-lora.json is not JSON"},
           {R"({"alpha": 4, "scale": 1})", "both alpha 4 and scale 1"},
           {R"({"alpha": 4, "rank": 2})", "rwkv-peft-lora.json: there is no 'rank'; wanted alpha or scale"},
           {R"({"alpha": "4"})", "rwkv-peft-lora.json: alpha"},
           {R"({"scale": 1e7})", "rwkv-peft-lora.json: scale is 10000000; wanted -1000000 to 1000000"},
           {"{}", "give alpha or scale"}}) {
    folder_.write("rwkv-peft-lora.json", text);
    EXPECT_THAT(refusal(path), HasSubstr(words));
  }
}

TEST_F(Beside, AFileThatNeedsNoneReadsNone) {
  const fs::path path = copy("rwkv-peft-disha.pth");
  folder_.write("rwkv-peft-disha.json", "no JSON");
  EXPECT_EQ(refusal(path), "read");
}

// An older checkpoint: the tensors of one with a manifest, and checkpoint.json beside them.
class OlderCheckpoint : public Beside {
 protected:
  void SetUp() override {
    Beside::SetUp();
    if (IsSkipped()) return;
    with_ = std::make_unique<Adapter>(read_adapter(forms() / "lightning-training.pth").value());
    const auto parts = tensors_at(forms() / "lightning-training.pth");
    ASSERT_TRUE(write_pth(path_, parts->tensors).ok());
    bytes_ = read_file(path_, kMostFileBytes).value();
  }
  std::string text(const std::string& kind, const std::string& digest, const std::string& rank) const {
    return R"({"kind":")" + kind + R"(","format_version":1,"tensor_digest":")" + digest +
           R"(","config":{"rank":)" + rank + R"(,"alpha":)" + alpha() + R"(,"base_fingerprint":")" +
           with_->base_fingerprint + R"(","seed":1},"step":4})";
  }
  std::string alpha() const {
    return std::to_string(with_->deltas[0].scale * static_cast<double>(with_->most_rank()));
  }
  std::string rank() const { return std::to_string(with_->most_rank()); }

  std::unique_ptr<Adapter> with_;
  fs::path path_ = folder_.path() / "training.pth";
  std::string bytes_;
};

TEST_F(OlderCheckpoint, GivesWhatOneWithAManifestGives) {
  EXPECT_THAT(refusal(path_), HasSubstr("wanted its checkpoint.json beside it"));
  const std::string beside = text("miss_training_checkpoint", sha256_hex(bytes_), rank());
  folder_.write("checkpoint.json", beside);
  const auto adapter = read_adapter(path_);
  ASSERT_TRUE(adapter.ok()) << adapter.error().text;
  EXPECT_EQ(digest_of(*adapter), digest_of(*with_));
  EXPECT_EQ(adapter->content_version.size(), 64u);
  EXPECT_EQ(adapter->base_fingerprint, with_->base_fingerprint);

  const ByteSpan file = std::as_bytes(std::span(bytes_));
  EXPECT_FALSE(adapter_in(file).ok());
  const auto uploaded = adapter_in(file, beside);
  ASSERT_TRUE(uploaded.ok()) << uploaded.error().text;
  EXPECT_EQ(read_adapter(*uploaded)->content_version, adapter->content_version);
}

TEST_F(OlderCheckpoint, IsComparedWithItsTensors) {
  const std::string kind = "miss_training_checkpoint", digest = sha256_hex(bytes_);
  for (const auto& [beside, words] : std::vector<std::pair<std::string, std::string>>{
           {text("other", digest, rank()), "checkpoint.json: kind is 'other'; wanted 'miss_training_"},
           {text(kind, std::string(64, '0'), rank()), "tensor_digest 0000"},
           {text(kind, digest, "0"), "config of checkpoint.json: rank is 0; wanted 1 to 1024"},
           {text(kind, digest, "1"), "the manifest says [128, 1]"},
           {R"({"kind":"miss_training_checkpoint","tensor_digest":")" + digest + "\"}", "rank"}}) {
    folder_.write("checkpoint.json", beside);
    EXPECT_THAT(refusal(path_), HasSubstr(words));
  }
}

}  // namespace
}  // namespace fulmar
