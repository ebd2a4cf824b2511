// Adapters in the forms of other programs: what is written reads back as the same, and what a form cannot
// hold is refused by name.
#include "adapters/writing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/adapter_goldens.h"
#include "adapters/delta_rows.h"

namespace fulmar {
namespace {

using namespace test;
using support::Json;
using testing::HasSubstr;

constexpr AdapterForm kWritten[] = {AdapterForm::peft, AdapterForm::lightning, AdapterForm::gguf};

// Returns ΔW for W of ones.
std::vector<float> change_of(const Delta& delta, const BaseShapes& base) {
  const LinearShape shape = linear_of(base, delta.weight).value();
  std::vector<float> w(static_cast<size_t>(shape.out * shape.in), 1.0f);
  add_delta(delta, 1, shape, w);
  return w;
}

// Returns whether writing took the scale into the factors.
bool took_scale_in(const Adapter& before, const Adapter& after) {
  return !before.deltas.empty() && before.deltas[0].scale != after.deltas[0].scale;
}

void expect_same(const Adapter& before, const Adapter& after, const BaseShapes& base) {
  if (!took_scale_in(before, after)) {
    EXPECT_EQ(digest_of(after), digest_of(before));
    return;
  }
  ASSERT_EQ(after.deltas.size(), before.deltas.size());
  for (size_t i = 0; i < after.deltas.size(); i++) {
    EXPECT_EQ(after.deltas[i].weight, before.deltas[i].weight);
    EXPECT_THAT(change_of(after.deltas[i], base),
                testing::Pointwise(testing::FloatNear(1e-6f), change_of(before.deltas[i], base)));
  }
}

// How many of the golden adapters each form holds: its own, and those of others with the same kinds.
const std::map<AdapterForm, size_t> kHeld = {
    {AdapterForm::peft, 17}, {AdapterForm::lightning, 5}, {AdapterForm::gguf, 7}};

TEST(AdapterWriting, EveryGoldenAdapterComesBackOrIsRefusedByName) {
  const Json golden = support::read_golden("adapters-files");
  if (golden.is_null()) GTEST_SKIP() << "no golden files here";
  const TempFolder folder;
  std::map<AdapterForm, size_t> held;
  for (const Json& file : golden["files"]) {
    const Base base = open_base(file["model"]);
    const auto path = support::shared_folder() / file["path"].get<std::string>();
    const auto adapter = read_for(path, options_of(file["options"], path.parent_path()), base.shapes);
    ASSERT_TRUE(adapter.ok()) << adapter.error().text;
    for (const AdapterForm form : kWritten) {
      SCOPED_TRACE(path.filename().string() + " as " + std::string(name_of(form)));
      const auto out = folder.path() / "out";
      std::filesystem::remove_all(out);
      const Status written = write_adapter(out, form, *adapter, {base.config.version, std::string(64, 'a')});
      if (!written.ok()) {
        EXPECT_NE(form, adapter->form) << written.error().text;
        EXPECT_THAT(written.error().text,
                    testing::AllOf(HasSubstr("'blocks."), HasSubstr("has no place for")));
        EXPECT_FALSE(std::filesystem::exists(out));
        continue;
      }
      held[form]++;
      const auto again = read_for(out, {}, base.shapes);
      ASSERT_TRUE(again.ok()) << again.error().text;
      EXPECT_EQ(again->form, form);
      expect_same(*adapter, *again, base.shapes);
    }
  }
  EXPECT_EQ(held, kHeld);
}

Delta pair(const std::string& weight, int64_t rank, double scale) {
  Delta delta;
  delta.weight = weight;
  delta.a = host_tensor(std::vector<float>(static_cast<size_t>(rank * 4), 0.5f), {rank, 4}, DType::bf16);
  delta.b = host_tensor(std::vector<float>(static_cast<size_t>(rank * 4), 0.3f), {4, rank}, DType::bf16);
  delta.scale = scale;
  return delta;
}

Adapter adapter_of(std::vector<Delta> deltas) {
  Adapter adapter;
  adapter.version = 7;
  adapter.deltas = std::move(deltas);
  return adapter;
}

TEST(AdapterWriting, RanksAndScalesOfEachMatrixComeBack) {
  const TempFolder folder;
  const Adapter adapter = adapter_of({pair("blocks.0.att.key.weight", 2, 2), pair("blocks.0.att.w1", 3, 0.1),
                                      pair("blocks.10.ffn.key.weight", 13, 1.0 / 7), pair("emb.weight", 1, 3),
                                      pair("head.weight", 2, 2)});
  ASSERT_TRUE(write_adapter(folder.path() / "peft", AdapterForm::peft, adapter, {}).ok());
  const auto again = read_adapter(folder.path() / "peft");
  ASSERT_TRUE(again.ok()) << again.error().text;
  ASSERT_EQ(again->deltas.size(), adapter.deltas.size());
  for (size_t i = 0; i < again->deltas.size(); i++) {
    EXPECT_EQ(again->deltas[i].weight, adapter.deltas[i].weight);
    EXPECT_EQ(again->deltas[i].rank(), adapter.deltas[i].rank());
    EXPECT_DOUBLE_EQ(again->deltas[i].scale, adapter.deltas[i].scale);
  }
  // GGUF has one alpha: the factors take other scales in.
  ASSERT_TRUE(write_adapter(folder.path() / "x.gguf", AdapterForm::gguf, adapter, {}).ok());
  const auto folded = read_adapter(folder.path() / "x.gguf");
  ASSERT_TRUE(folded.ok()) << folded.error().text;
  EXPECT_EQ(folded->deltas[0].scale, 1);
  EXPECT_EQ(folded->deltas[0].b.dtype, DType::bf16);  // twice a number is one of the type
  EXPECT_EQ(folded->deltas[1].b.dtype, DType::f32);
  EXPECT_NEAR(folded->deltas[1].b.floats()[0], adapter.deltas[1].b.floats()[0] * 0.1f, 1e-8f);
}

TEST(AdapterWriting, WhatIsMissingIsNamed) {
  const TempFolder folder;
  const auto refusal = [&](AdapterForm form, const Adapter& adapter, const AdapterFacts& facts = {}) {
    const Status written = write_adapter(folder.path() / "out", form, adapter, facts);
    return written.ok() ? "written" : written.error().text;
  };
  Adapter plain = adapter_of({pair("blocks.0.att.key.weight", 2, 1)});
  plain.version = 0;
  EXPECT_THAT(refusal(AdapterForm::gguf, plain), HasSubstr("give the base model"));
  EXPECT_EQ(refusal(AdapterForm::gguf, plain, {7, {}}), "written");
  plain.scale_known = false;
  EXPECT_THAT(refusal(AdapterForm::gguf, plain, {7, {}}), HasSubstr("give alpha or scale"));

  Delta miss;
  miss.weight = "blocks.0.att.key.weight";
  miss.kind = DeltaKind::miss;
  miss.d = host_tensor(std::vector<float>(12, 1), {3, 4}, DType::f16);
  Adapter adapter = adapter_of({miss});
  const AdapterFacts base{7, std::string(64, 'a')};
  EXPECT_THAT(refusal(AdapterForm::lightning, adapter, base), HasSubstr("how many inputs"));
  adapter.deltas[0].inputs = 5;
  EXPECT_THAT(refusal(AdapterForm::lightning, adapter), HasSubstr("names its base model by SHA-256"));
  EXPECT_EQ(refusal(AdapterForm::lightning, adapter, base), "written");
  EXPECT_THAT(refusal(AdapterForm::rwkv_peft, adapter), HasSubstr("are not written"));
  adapter.deltas[0].d = host_tensor(std::vector<float>(12, 1e5f), {3, 4}, DType::f32);
  EXPECT_EQ(refusal(AdapterForm::lightning, adapter, base),
            "'blocks.0.att.key.weight': a MiSS package has no place for 100000, beyond f16");
}

}  // namespace
}  // namespace fulmar
