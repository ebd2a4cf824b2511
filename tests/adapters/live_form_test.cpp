// Adapters of every file form beside a model: the reference's logits without a change of the weights, and a
// trained one that answers as it was trained to.
#include "adapters/live_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/adapter_goldens.h"
#include "cpu/cpu_ops.h"
#include "support/golden.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using namespace test;
using support::Json;
using support::ModelRig;
using testing::HasSubstr;

// Why an adapter has no live form; empty: it has one.
std::string merged_only(const Adapter& adapter) {
  if (!adapter.whole.empty()) return "'" + adapter.whole.front().name + "'";
  for (const Delta& delta : adapter.deltas) {
    if (delta.weight == "emb.weight" || delta.kind == DeltaKind::bat_out) return "'" + delta.weight + "'";
  }
  return "";
}

TEST(LiveForm, EveryFormGivesTheReferencesLogitsOrIsToBeMerged) {
  const Json golden = support::read_golden("adapters-files");
  if (golden.is_null()) GTEST_SKIP() << "no golden files here";
  int live = 0;
  for (const Json& file : golden["files"]) {
    SCOPED_TRACE(file["path"].get<std::string>());
    Base base = open_base(file["model"]);
    const auto path = support::shared_folder() / file["path"].get<std::string>();
    const auto adapter = read_for(path, options_of(file["options"], path.parent_path()), base.shapes);
    ASSERT_TRUE(adapter.ok()) << adapter.error().text;
    const auto form = live_form(*adapter, *base.checkpoint, base.shapes);
    if (const std::string tensor = merged_only(*adapter); !tensor.empty()) {
      ASSERT_FALSE(form.ok());
      EXPECT_THAT(form.error().text, HasSubstr(tensor));
      EXPECT_THAT(form.error().text, HasSubstr("merge the adapter"));
      continue;
    }
    ASSERT_TRUE(form.ok()) << form.error().text;
    if (!adapter->states.empty()) continue;  // the states are no part of the form
    live++;
    const auto states = support::time_states(*base.checkpoint, base.config.n_layer);
    const auto ops = make_cpu_ops({.threads = 2});
    ModelRig rig(std::move(base.checkpoint), *ops, 1);
    const auto loaded = rig.adapt(form->deltas);
    ASSERT_NE(loaded, nullptr);
    if (!states.empty()) {
      ASSERT_TRUE(rig.pool().set_initial(0, states).ok());
    }
    const std::vector<int32_t> prompt = file["prompt"];
    expect_logits(rig.step({{0, prompt, false, {&loaded->deltas(), 1}}}).front(), file["result"]);
  }
  EXPECT_GE(live, 8);
}

// What one row says greedily, until id 0.
std::vector<int32_t> answer(ModelRig& rig, const std::vector<int32_t>& prompt, SequenceDeltas deltas) {
  std::vector<int32_t> said;
  rig.pool().zero(0);
  std::vector<float> logits = rig.step({{0, prompt, false, deltas}}).front();
  while (said.size() < 24) {
    said.push_back(support::argmax(logits));
    if (said.back() == 0) break;
    logits = rig.step({{0, {said.back()}, false, deltas}}).front();
  }
  return said;
}

TEST(LiveForm, ATrainedAdapterAnswersInNinesComplement) {
  const Json golden = support::read_golden("adapters-trained");
  if (golden.is_null()) GTEST_SKIP() << "no golden files here";
  Base base = open_base("rwkv7-reverse/reverse-v64-f32.safetensors");
  const auto path = support::shared_folder() / "models/adapters/reverse-nines-lora-r8-alpha16.pth";
  AdapterOptions options;
  options.alpha = 16;
  const auto adapter = read_for(path, options, base.shapes);
  ASSERT_TRUE(adapter.ok()) << adapter.error().text;
  const auto form = live_form(*adapter, *base.checkpoint, base.shapes);
  ASSERT_TRUE(form.ok()) << form.error().text;
  const auto ops = make_cpu_ops({.threads = 2});
  ModelRig rig(std::move(base.checkpoint), *ops, 1);
  const auto loaded = rig.adapt(form->deltas);
  ASSERT_NE(loaded, nullptr);
  for (const Json& one : golden["cases"]) {
    const std::vector<int32_t> prompt = one["prompt"], base_says = one["base"]["output"];
    EXPECT_EQ(answer(rig, prompt, {}), base_says);
    EXPECT_EQ(answer(rig, prompt, {&loaded->deltas(), 0}), base_says);
    EXPECT_EQ(answer(rig, prompt, {&loaded->deltas(), 1}), one["lora"]["output"].get<std::vector<int32_t>>());
  }
}

}  // namespace
}  // namespace fulmar
