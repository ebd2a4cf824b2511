// Which adapter a request gets: every rule of precedence, and every way to ask for what cannot be.
#include "server/adapters/adapter_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fulmar {
namespace {

AdapterContentPtr content(const std::string& version, std::vector<double> scales, bool states = false,
                          const std::string& shapes = "seven") {
  auto made = std::make_shared<AdapterContent>();
  made->version = version;
  made->shapes = shapes;
  for (const double scale : scales) made->adapter.deltas.push_back({.weight = "w", .scale = scale});
  if (states) made->adapter.states.push_back({.name = "blocks.0.att.time_state"});
  return made;
}

// Two owners' adapters, public ones, one of another model, one with two scales and one with a state.
std::vector<AdapterEntry> table() {
  const auto entry = [](std::string id, std::string owner, int64_t number,
                        std::vector<AdapterContentPtr> versions) {
    return AdapterEntry{.id = std::move(id),
                        .owner = std::move(owner),
                        .number = number,
                        .base = "seven-model",
                        .versions = std::move(versions)};
  };
  return {entry("a", "", 0, {content("a1", {2}), content("a2", {4})}),
          entry("b", "", 1, {content("b1", {2, 3})}),
          entry("other", "", 2, {content("o1", {1}, false, "six")}),
          entry("state", "", 3, {content("s1", {}, true)}),
          entry("mine", "ann", 4, {content("m1", {1})}),
          entry("a", "ann", 5, {content("a-of-ann", {1})}),
          entry("gone", "", 6, {}),
          entry("zero", "", 7, {content("z1", {0})})};
}

const Owner kAnn{.name = "ann"}, kBob{.name = "bob"};
const AdaptedModel kSeven{"seven-model", "seven"};

AdapterChoice chosen(const AdapterWish& wish, const Owner& owner = kBob,
                     const std::vector<AdapterEntry>& of = table()) {
  const AdapterChosen answer = choose_adapter(of, owner, kSeven, wish);
  if (const auto* fault = std::get_if<ApiError>(&answer)) ADD_FAILURE() << fault->text;
  return std::holds_alternative<AdapterChoice>(answer) ? std::get<AdapterChoice>(answer) : AdapterChoice();
}

std::string fault(const AdapterWish& wish, const Owner& owner = kBob, const AdaptedModel& model = kSeven) {
  const AdapterChosen answer = choose_adapter(table(), owner, model, wish);
  const auto* error = std::get_if<ApiError>(&answer);
  if (!error) return "none";
  EXPECT_EQ(error->status, 400);
  return error->text;
}

using Listed = std::vector<ListedAdapter>;

TEST(AdapterTable, NothingNamedIsTheBase) {
  const AdapterChoice base = chosen({});
  EXPECT_EQ(base.id + base.version + base.identity, "");
  EXPECT_FALSE(base.held);
  EXPECT_FALSE(chosen({.list = Listed{}}).held);
  EXPECT_FALSE(chosen({.list = Listed{{0, 0}, {1, 0}}}).held);
}

TEST(AdapterTable, AnIdMeansItsLastVersionUnlessOneIsNamed) {
  const AdapterChoice last = chosen({.id = "a"});
  EXPECT_EQ(last.version, "a2");
  EXPECT_EQ(last.identity, "a2");
  EXPECT_EQ(last.scale, 1);
  EXPECT_EQ(last.held->version, "a2");
  EXPECT_EQ(chosen({.id = "a", .version = "a1"}).version, "a1");
}

TEST(AdapterTable, OnesOwnGoesBeforeAPublicOneAndOthersAreUnknown) {
  EXPECT_EQ(chosen({.id = "a"}, kAnn).version, "a-of-ann");
  EXPECT_EQ(chosen({.id = "mine"}, kAnn).version, "m1");
  EXPECT_EQ(fault({.id = "mine"}, kBob), "unknown adapter id");
  EXPECT_EQ(chosen({.id = "mine"}, server_itself()).version, "m1");
  EXPECT_EQ(chosen({.id = "a"}, server_itself()).version, "a2");
  EXPECT_EQ(fault({.list = Listed{{4, 1}}}, kBob),
            "lora: adapter 4 does not exist; there are: 0, 1, 2, 3, 7");
}

TEST(AdapterTable, TheScaleOfARequestReplacesThatOfTheAdapter) {
  EXPECT_EQ(chosen({.id = "a", .scale = 1.0}).scale, 0.25);
  EXPECT_EQ(chosen({.id = "a", .version = "a1", .scale = 1.0}).scale, 0.5);
  EXPECT_EQ(chosen({.id = "a", .scale = -4.0}).scale, -1);
  EXPECT_EQ(fault({.id = "b", .scale = 1.0}),
            "adapter_scale needs one common scale in the adapter; use lora[].scale");
  EXPECT_EQ(fault({.id = "zero", .scale = 1.0}),
            "adapter_scale needs one common scale in the adapter; use lora[].scale");
}

TEST(AdapterTable, ScaleZeroIsTheBaseAndStillNamed) {
  for (const std::string id : {"a", "b", "state", "zero"}) {
    const AdapterChoice none = chosen({.id = id, .scale = 0.0});
    EXPECT_EQ(none.id, id);
    EXPECT_EQ(none.scale, 0);
    EXPECT_EQ(none.identity, "");
    EXPECT_FALSE(none.held) << id;
    EXPECT_EQ(none.initial_state, "");
  }
}

TEST(AdapterTable, TheScaleOfAListMultiplies) {
  const AdapterChoice half = chosen({.list = Listed{{1, 0.5}, {0, 0}}});
  EXPECT_EQ(half.id, "b");
  EXPECT_EQ(half.scale, 0.5);
  EXPECT_EQ(half.identity, "b1@3f000000");
}

TEST(AdapterTable, EqualScalesHaveOneIdentityAndOthersAnother) {
  EXPECT_EQ(chosen({.id = "a", .scale = 4.0}).identity, chosen({.list = Listed{{0, 1}}}).identity);
  EXPECT_NE(chosen({.id = "a", .scale = 4.0}).identity, chosen({.id = "a", .scale = 4.5}).identity);
  EXPECT_EQ(chosen({.list = Listed{{0, 1e-60}}}).identity, "");  // nothing, once it is an f32
}

TEST(AdapterTable, TheListGoesBeforeTheIdAndTheIdBeforeTheModelsName) {
  const AdapterChoice both = chosen({.id = "a", .list = Listed{{0, 0.5}}, .by_model_name = "a"});
  EXPECT_EQ(both.id, "a");
  EXPECT_EQ(both.scale, 0.5);
  EXPECT_EQ(chosen({.id = "a", .version = "a1", .by_model_name = "a"}).version, "a1");
  EXPECT_EQ(chosen({.by_model_name = "b"}).version, "b1");
}

TEST(AdapterTable, TwoThatDisagreeAreRefusedByName) {
  EXPECT_EQ(fault({.id = "a", .list = Listed{{1, 1}}}),
            "two adapters named: 'b' (lora) and 'a' (adapter_id)");
  EXPECT_EQ(fault({.id = "a", .list = Listed{}}), "two adapters named: none (lora) and 'a' (adapter_id)");
  EXPECT_EQ(fault({.id = "a", .by_model_name = "b"}), "two adapters named: 'a' (adapter_id) and 'b' (model)");
  EXPECT_EQ(fault({.list = Listed{{0, 1}}, .by_model_name = "b"}),
            "two adapters named: 'a' (lora) and 'b' (model)");
}

TEST(AdapterTable, FieldsWithoutEffectAreRefused) {
  const std::string alone = "adapter_id is required with adapter_version/adapter_scale";
  EXPECT_EQ(fault({.version = "a1"}), alone);
  EXPECT_EQ(fault({.scale = 1.0}), alone);
  EXPECT_EQ(fault({.scale = 0.0, .by_model_name = "a"}), alone);
  EXPECT_EQ(fault({.id = "a", .scale = 1.0, .list = Listed{{0, 1}}}),
            "adapter_scale has no effect beside lora, which says scales of its own");
}

TEST(AdapterTable, WhatIsUnknownIsRefused) {
  EXPECT_EQ(fault({.id = "b2"}), "unknown adapter id");
  EXPECT_EQ(fault({.id = "gone"}), "unknown adapter id");
  EXPECT_EQ(fault({.by_model_name = "b2"}), "unknown adapter id");
  EXPECT_EQ(fault({.id = "a", .version = "b1"}), "unknown adapter version");
  EXPECT_EQ(fault({.list = Listed{{9, 1}}}), "lora: adapter 9 does not exist; there are: 0, 1, 2, 3, 7");
  EXPECT_EQ(fault({.list = Listed{{0, 1}, {0, 2}}}), "lora: adapter 0 is listed twice");
  EXPECT_EQ(fault({.list = Listed{{0, 1}, {1, 2}}}),
            "lora: 'a' and 'b' have scales other than 0; one adapter a request");
}

TEST(AdapterTable, AScaleIsFiniteAndBounded) {
  EXPECT_EQ(chosen({.id = "a", .scale = 400.0}).scale, 100);
  EXPECT_EQ(fault({.id = "a", .scale = 404.0}),
            "adapter_scale: 101 times what the adapter changes; at most 100 times, either way");
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_NE(fault({.id = "a", .scale = bad}), "none");
    EXPECT_NE(fault({.list = Listed{{0, bad}}}), "none");
  }
}

TEST(AdapterTable, AModelOfOtherSizesIsRefused) {
  EXPECT_EQ(fault({.id = "other"}),
            "adapter 'other' is for the model 'seven-model' and does not fit 'seven-model'");
  EXPECT_EQ(fault({.id = "a"}, kBob, {"plain", ""}), "the model 'plain' takes no adapters");
}

TEST(AdapterTable, InitialStatesComeWithTheirAdapterAtItsOwnScale) {
  const AdapterChoice with = chosen({.id = "state"});
  EXPECT_EQ(with.initial_state, adapter_state_name("s1"));
  EXPECT_EQ(with.identity, "s1");
  EXPECT_EQ(chosen({.id = "a"}).initial_state, "");
  EXPECT_EQ(fault({.list = Listed{{3, 0.5}}}),
            "lora: adapter 'state' holds initial states, which have no other scale than its own");
}

TEST(AdapterTable, GlobalScalesAreForRequestsThatNameNone) {
  std::vector<AdapterEntry> scaled = table();
  scaled[1].global_scale = 0.5;
  scaled[2].global_scale = 1;  // of another model
  EXPECT_EQ(chosen({}, kBob, scaled).identity, "b1@3f000000");
  EXPECT_EQ(chosen({.id = "a"}, kBob, scaled).version, "a2");
  EXPECT_EQ(chosen({.list = Listed{}}, kBob, scaled).identity, "");
  scaled[1].only_base = true;
  EXPECT_EQ(chosen({}, kBob, scaled).identity, "b1@3f000000");
  scaled[1].base = "another";
  EXPECT_EQ(chosen({}, kBob, scaled).identity, "");
}

}  // namespace
}  // namespace fulmar
