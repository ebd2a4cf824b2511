// Every form of adapter file comes out as the reference decodes it, and the golden hostile files get their
// answers, by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "adapters/adapter_goldens.h"

namespace fulmar {
namespace {

using namespace test;
using support::Json;
using testing::HasSubstr;

const std::map<std::string, DeltaKind> kKinds = {
    {"lora", DeltaKind::low_rank},   {"miss", DeltaKind::miss},         {"bat_in", DeltaKind::bat_in},
    {"bat_out", DeltaKind::bat_out}, {"dora_out", DeltaKind::dora_out}, {"dora_in", DeltaKind::dora_in}};

const std::map<std::string, std::vector<AdapterForm>> kForms = {
    {"rwkv-peft", {AdapterForm::rwkv_peft, AdapterForm::state}},
    {"peft", {AdapterForm::peft}},
    {"lightning", {AdapterForm::lightning}},
    {"gguf", {AdapterForm::gguf}},
    {"web-rwkv", {AdapterForm::web_rwkv}}};

void expect_sum(const HostTensor& tensor, double wanted, const std::string& name) {
  EXPECT_NEAR(checksum(tensor.floats()), wanted, 1e-6 * (1 + std::abs(wanted))) << name;
}

void expect_delta(const Delta& delta, const Json& wanted) {
  EXPECT_EQ(delta.kind, kKinds.at(wanted["kind"])) << delta.weight;
  EXPECT_NEAR(delta.scale, wanted["scale"].get<double>(), 1e-7) << delta.weight;
  for (const auto& [letter, part] :
       {std::pair("A", &delta.a), {"B", &delta.b}, {"D", &delta.d}, {"m", &delta.m}}) {
    ASSERT_EQ(wanted.contains(letter), !part->empty()) << delta.weight << " " << letter;
    if (part->empty()) continue;
    EXPECT_EQ(part->shape, wanted[letter][0].get<std::vector<int64_t>>()) << delta.weight << " " << letter;
    expect_sum(*part, wanted[letter][1].get<double>(), delta.weight + " " + letter);
  }
}

void expect_tensors(const std::vector<WholeTensor>& found, const Json& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (const WholeTensor& tensor : found) {
    ASSERT_TRUE(wanted.contains(tensor.name)) << tensor.name;
    expect_sum(tensor.value, wanted[tensor.name].get<double>(), tensor.name);
  }
}

TEST(AdapterFiles, EveryFormDecodesToItsNumbers) {
  const Json golden = support::read_golden("adapters-files");
  if (golden.is_null()) GTEST_SKIP() << "no golden files here";
  for (const Json& file : golden["files"]) {
    SCOPED_TRACE(file["path"].get<std::string>());
    const Base base = open_base(file["model"]);
    const auto path = support::shared_folder() / file["path"].get<std::string>();
    const auto adapter = read_for(path, options_of(file["options"], path.parent_path()), base.shapes);
    ASSERT_TRUE(adapter.ok()) << adapter.error().text;
    EXPECT_THAT(kForms.at(file["form"]), testing::Contains(adapter->form));
    ASSERT_EQ(adapter->deltas.size(), file["deltas"].size());
    for (const Delta& delta : adapter->deltas) {
      ASSERT_TRUE(file["deltas"].contains(delta.weight)) << delta.weight;
      expect_delta(delta, file["deltas"][delta.weight]);
    }
    expect_tensors(adapter->whole, file["whole"]);
    expect_tensors(adapter->states, file["states"]);
    EXPECT_EQ(adapter->content_version.size(), 64u);
  }
}

// What the answer to each golden file that must be refused says.
const std::map<std::string, std::vector<std::string>> kWords = {
    {"LoRA without alpha", {"'blocks.0.att.key.weight'", "give alpha or scale"}},
    {"alpha not finite", {"'blocks.0.att.key.weight'", "the scale is inf", "finite"}},
    {"A without B", {"'blocks.0.att.key.lora_A' has no partner 'blocks.0.att.key.lora_B'"}},
    {"B without A", {"'blocks.0.att.key.lora_B' has no partner 'blocks.0.att.key.lora_A'"}},
    {"rank 0", {"'blocks.0.att.key.weight' has rank 0; wanted 1 to 1024"}},
    {"ranks differ", {"'blocks.0.att.key.weight': A is [2, 128] and B [128, 3]; wanted B [out, 2]"}},
    {"A and B exchanged", {"'blocks.0.att.key.weight': A is [128, 2]; the model wants [r, 128]"}},
    {"another width", {"'blocks.0.att.key.weight': A is [2, 64]; the model wants [r, 128]"}},
    {"A with one dimension", {"'blocks.0.att.key.weight': A is [128] and B [128, 1]; wanted two dimensions"}},
    {"NaN in B", {"'blocks.0.att.key.lora_B' holds nan", "wanted finite"}},
    {"infinity in D", {"'blocks.0.att.key.disha' holds inf", "wanted finite"}},
    {"layer out of range", {"the model has no tensor 'blocks.7.att.key.weight' (RWKV-7, 2 layers)"}},
    {"gate on v7", {"the adapter is for RWKV-6; the model is RWKV-7"}},
    {"delta on a vector", {"'blocks.0.ln1.weight' [128] is no matrix"}},
    {"MiSS transposed", {"'blocks.0.att.key.weight': MiSS is [128, 4]; the model wants [r, 128]"}},
    {"MiSS on ffn.key with the width of the inputs",
     {"'blocks.0.ffn.key.weight': MiSS is [4, 128]; the model wants [r, 512]"}},
    {"LoRA and MiSS for one weight", {"'blocks.0.att.key' has both .lora_A and .disha"}},
    {"bone and disha for one weight", {"two tensors of the file change 'blocks.0.att.key.weight'"}},
    {"the same weight under two names", {"two tensors are 'blocks.0.att.key.lora_"}},
    {"Bat that does not divide", {"'blocks.0.att.key.weight': [128, 128] does not divide into blocks of 7"}},
    {"Bat with a wrong count", {"'blocks.0.att.key.weight': Bat is [31, 4, 4]; the model wants 32 blocks"}},
    {"Bat not square", {"'blocks.0.att.key.weight': Bat is [32, 4, 5]; wanted [n, r, r]"}},
    {"unknown adapter tensor", {"'blocks.0.att.key.lora_E'"}},
    {"whole tensor of another shape", {"'blocks.0.ln1.weight' is [127]; the model has [128]"}},
    {"whole tensor that the model lacks", {"RWKV-6", "RWKV-7"}},
    {"nothing in it", {"holds no tensors"}},
    {"states for one layer of two", {"initial states of 1 layers; the model has 2"}},
    {"state of another shape", {"'blocks.0.att.time_state' is [2, 64, 32]; the model wants [2, 64, 64]"}},
    {"MiSS one output wide", {"'blocks.0.ffn.value.weight': MiSS is [9, 1]; the model wants [r, 128]"}},
    {"safetensors cut", {"'blocks.0.att.key.lora_B'", "bytes"}},
    {"safetensors header longer than the file", {"neither a PyTorch file nor safetensors", "1200 bytes"}},
    {"safetensors overlap", {"'blocks.0.att.key.lora_B'", "overlap"}},
    {"safetensors shape larger than its bytes", {"'blocks.0.att.key.lora_B'"}},
    {"safetensors negative dimension", {"'blocks.0.att.key.lora_B'", "shape"}},
    {"safetensors integers", {"'blocks.0.att.key.lora_B'", "I16"}},
    {"safetensors name twice", {"comes twice"}},
    {".pth cut", {"no end record in 931 bytes"}},
    {".pth with a storage too short", {"storage '0' has 512 bytes; wanted 65024"}},
    {".pth that calls another function", {"global 'posix system' is not allowed"}},
    {"PEFT config is no JSON", {"adapter_config.json is not JSON"}},
    {"PEFT config is a list", {"adapter_config.json is no JSON object"}},
    {"PEFT r as a string", {"adapter_config.json: r is", "wanted a whole number"}},
    {"PEFT r negative", {"adapter_config.json: r is -", "wanted 1 to 1024"}},
    {"PEFT r differs from the file", {"'blocks.0.att.key' is [2, 128]; the configuration says rank 4"}},
    {"PEFT alpha null", {"adapter_config.json: lora_alpha", "wanted a number"}},
    {"PEFT unknown method", {"peft_type is 'LOHA'; wanted LORA, MISS or BONE"}},
    {"PEFT PiSSA init", {"init_lora_weights 'pissa_niter_4'", "changed the base model"}},
    {"PEFT trains biases", {"bias is 'lora_only'; wanted 'none'"}},
    {"PEFT aLoRA", {"alora_invocation_tokens"}},
    {"PEFT DoRA without magnitude", {"'blocks.0.att.key' has 2 parts and no magnitude"}},
    {"PEFT unknown module", {"no tensor 'blocks.0.att.q_proj.weight'"}},
    {"PEFT without prefix", {"'blocks.0.att.key.lora_", "wanted 'base_model.model.", "..."}},
    {"PEFT file without configuration", {"adapter_config.json is missing"}},
    {"PEFT MiSS read as Bat", {"'blocks.0.att.key.weight': Bat is [", "wanted [n, r, r]"}},
    {"PEFT MiSS mini that does not divide", {"module 'blocks.0.att.key' is [4, 128]; mini_r says [r, 3]"}},
    {"MiSS package for another base", {"abab", "cdcd"}},
    {"MiSS package, scale changed", {"the content has the digest", "the manifest says content_version"}},
    {"MiSS package, another weight bit", {"the content has the digest", "the manifest says content_version"}},
    {"MiSS package, rank differs", {"manifest: target", "the rank of the manifest"}},
    {"MiSS package, another layout", {"manifest: layout is", "wanted 'modulo_rank_zero_pad'"}},
    {"MiSS package, format 2", {"manifest: format_version is 2; wanted 1"}},
    {"MiSS package, target twice", {"1 tensors for 2 targets; wanted 2"}},
    {"MiSS package, target unknown", {"manifest: target", "wanted a target that MiSS packages have"}},
    {"MiSS package, name differs from target", {"manifest: target", "wanted the name"}},
    {"MiSS package, shape differs", {"'blocks.0.att.key.weight.D' is [128, 4]; the manifest says ["}},
    {"MiSS package, no manifest", {"manifest"}},
    {"MiSS package, one tensor more", {"2 tensors for 1 targets; wanted 1"}},
    {"MiSS package, beyond f16", {"'blocks.0.att.key.weight.D' holds", "wanted at most 65504"}},
    {"GGUF is a model", {"general.type is 'model'; wanted 'adapter'"}},
    {"GGUF for rwkv6", {"the adapter is for RWKV-6; the model is RWKV-7"}},
    {"GGUF control vector", {"adapter.type is", "wanted 'lora'"}},
    {"GGUF without lora_b", {"'blk.0.time_mix_key.weight' has no .lora_b"}},
    {"GGUF of another name", {"RWKV-7 has no tensor 'blk.0.attn_q.weight'"}},
    {"GGUF with both factors transposed",
     {"'blocks.0.att.key.weight': A is [128, 2]; the model wants [r, 128]"}},
};

// Reads a case's files, as a server that knows the fingerprint of its model does.
Result<Adapter> read_case(const Json& one, const TempFolder& folder, const BaseShapes& base) {
  for (const auto& [name, content] : one["files"].items()) {
    const auto bytes = support::from_base64(content.get<std::string>());
    folder.write(name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  FULMAR_ASSIGN(Adapter adapter, read_for(folder.path() / one["entry"].get<std::string>(),
                                          options_of(one["options"], folder.path()), base));
  if (one["options"].contains("base")) FULMAR_TRY(check_fingerprint(adapter, one["options"]["base"]));
  return adapter;
}

TEST(AdapterFiles, HostileFilesGetTheirAnswers) {
  const Json golden = read_hostile();
  if (golden.is_null()) GTEST_SKIP() << "no golden files here";
  const Base base = open_base(golden["model"]);
  size_t seen = 0;
  for (const Json& one : golden["cases"]) {
    const std::string name = one["name"];
    SCOPED_TRACE(name);
    const TempFolder folder;
    seen++;
    const Result<Adapter> adapter = read_case(one, folder, base.shapes);
    if (one["want"] == "load") {
      EXPECT_TRUE(adapter.ok()) << adapter.error().text;
      continue;
    }
    ASSERT_FALSE(adapter.ok());
    ASSERT_TRUE(kWords.contains(name)) << "no words for it; it says: " << adapter.error().text;
    for (const std::string& words : kWords.at(name)) EXPECT_THAT(adapter.error().text, HasSubstr(words));
  }
  EXPECT_EQ(seen, 84u);
}

TEST(AdapterFiles, WhatHasNoEffectIsRefused) {
  const Json golden = support::read_golden("adapters-files");
  if (golden.is_null()) GTEST_SKIP() << "no golden files here";
  for (const Json& file : golden["files"]) {
    SCOPED_TRACE(file["path"].get<std::string>());
    const auto path = support::shared_folder() / file["path"].get<std::string>();
    const AdapterOptions good = options_of(file["options"], path.parent_path());
    if (!good.alpha && !good.scale) {
      for (const auto& set : {&AdapterOptions::alpha, &AdapterOptions::scale}) {
        AdapterOptions more = good;
        more.*set = 2.5;
        const auto refused = read_adapter(path, more);
        ASSERT_FALSE(refused.ok());
        EXPECT_THAT(refused.error().text, HasSubstr(" 2.5 would have no effect"));
      }
    } else {
      AdapterOptions both = good;
      both.alpha = both.scale = 2.5;
      EXPECT_FALSE(read_adapter(path, both).ok());
      EXPECT_FALSE(read_adapter(path).ok());
      both.alpha = both.scale = std::nullopt;
      both.scale_may_lack = true;
      const auto unscaled = read_adapter(path, both);
      ASSERT_TRUE(unscaled.ok()) << unscaled.error().text;
      EXPECT_FALSE(unscaled->scale_known);
    }
    if (good.init.empty()) {
      AdapterOptions more = good;
      more.init = path;
      EXPECT_FALSE(read_adapter(path, more).ok());
    }
  }
}

TEST(AdapterFiles, TheContentVersionIsOfTheContentAlone) {
  if (support::read_golden("adapters-files").is_null()) GTEST_SKIP() << "no golden files here";
  const auto forms = support::shared_folder() / "models" / "adapters" / "forms";
  const auto pth = read_adapter(forms / "rwkv-peft-lora.pth", {.alpha = 4.0});
  const auto safetensors = read_adapter(forms / "rwkv-peft-lora.safetensors", {.alpha = 4.0});
  const auto stronger = read_adapter(forms / "rwkv-peft-lora.pth", {.alpha = 8.0});
  ASSERT_TRUE(pth.ok() && safetensors.ok() && stronger.ok());
  EXPECT_EQ(pth->content_version, safetensors->content_version);
  EXPECT_NE(pth->content_version, stronger->content_version);
  Adapter changed = *pth;
  changed.deltas[0].b.bytes[0] ^= std::byte{1};
  EXPECT_NE(digest_of(changed), pth->content_version);
}

TEST(AdapterFiles, TheBudgetCountsBeforeItCopies) {
  if (support::read_golden("adapters-files").is_null()) GTEST_SKIP() << "no golden files here";
  const auto path = support::shared_folder() / "models" / "adapters" / "forms" / "lora.gguf";
  const auto whole = read_adapter(path);
  ASSERT_TRUE(whole.ok());
  EXPECT_TRUE(read_adapter(path, {.most_bytes = whole->bytes()}).ok());
  const auto refused = read_adapter(path, {.most_bytes = whole->bytes() - 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::resource);
}

}  // namespace
}  // namespace fulmar
