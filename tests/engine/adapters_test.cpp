// Rows with adapters through the engine: each says what it says alone, and no state, cached or saved, goes
// from one adapter to another.
#include <gtest/gtest.h>

#include "support/adapter_recipe.h"
#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using testing::bytes_of;
using testing::fresh;
using testing::in_session;
using testing::TinyEngine;

// Two adapters on one engine.
class EngineAdapters : public ::testing::TestWithParam<int> {
 protected:
  EngineAdapters() : tiny_({.slots = 6, .prefill_chunk = 16}, GetParam()) {
    const auto checkpoint = synthetic_checkpoint(TinyEngine::spec(GetParam()));
    const auto matrices = support::adapted_matrices(GetParam(), 2);
    const support::RecipeSpec kinds[] = {{"lora", 5, 0.4, 3}, {"miss", 6, 0.2, 2}};
    for (const auto& kind : kinds) {
      const auto made = support::make_adapter(kind, matrices, *checkpoint);
      auto loaded = tiny_.engine().load_adapter(made.deltas);
      EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().text);
      if (loaded.ok()) adapters_.push_back(*loaded);
    }
  }
  Ask with(Ask ask, size_t adapter, float scale = 1) {
    ask.adapter = {adapters_[adapter], scale,
                   "adapter " + std::to_string(adapter) + " at " + std::to_string(scale)};
    return ask;
  }

  TinyEngine tiny_;
  std::vector<std::shared_ptr<const DeviceAdapter>> adapters_;
};

TEST_P(EngineAdapters, RowsTogetherSayWhatEachSaysAlone) {
  const std::string prompt = "one prompt for all of them, longer than a piece";
  const std::vector<Ask> rows = {fresh(prompt, 20), with(fresh(prompt, 20), 0), with(fresh(prompt, 20), 1),
                                 with(fresh(prompt, 20), 0, -0.5f)};
  std::vector<std::string> alone;
  for (const Ask& row : rows) alone.push_back(bytes_of(tiny_.run(row)));
  const auto together = tiny_.submit(rows)->finished(rows.size());
  for (size_t i = 0; i < rows.size(); i++) {
    EXPECT_EQ(bytes_of(together.at(static_cast<int32_t>(i))), alone[i]) << i;
    for (size_t j = 0; j < i; j++) EXPECT_NE(alone[i], alone[j]) << i << " and " << j;
  }
}

TEST_P(EngineAdapters, NoCachedPrefixGoesToAnotherAdapter) {
  const std::string prompt(64, 'p');
  const auto asked = [&](std::optional<size_t> adapter, bool cached) {
    Ask ask = adapter ? with(fresh(prompt + " and the question", 12), *adapter)
                      : fresh(prompt + " and the question", 12);
    ask.use_prefix_cache = cached;
    return bytes_of(tiny_.run(ask));
  };
  for (const std::optional<size_t> adapter :
       {std::optional<size_t>(), std::optional<size_t>(0), std::optional<size_t>(1)}) {
    const std::string plain = asked(adapter, false);
    for (int i = 0; i < 3; i++) EXPECT_EQ(asked(adapter, true), plain);
  }
}

TEST_P(EngineAdapters, ASessionGoesOnUnderItsAdapterOnly) {
  EXPECT_TRUE(tiny_.run(with(in_session("s", "first turn", 5), 0)).last->error == std::nullopt);
  const auto refused = [&](const Ask& ask) {
    const auto row = tiny_.run(ask);
    return row.last->error ? row.last->error->text : "";
  };
  EXPECT_EQ(refused(in_session("s", " next", 5)),
            "session 's' was computed with adapter adapter 0 at 1.000000; this request has no adapter");
  EXPECT_EQ(
      refused(with(in_session("s", " next", 5), 1)),
      "session 's' was computed with adapter adapter 0 at 1.000000; this request has adapter adapter 1 at "
      "1.000000");
  EXPECT_EQ(refused(with(in_session("s", " next", 5), 0)), "");
  EXPECT_EQ(refused(in_session("plain", "first turn", 5)), "");
  EXPECT_EQ(refused(with(in_session("plain", " next", 5), 0)),
            "session 'plain' was computed with no adapter; this request has adapter adapter 0 at 1.000000");
  const auto exported = tiny_.engine().export_session({}, "s");
  ASSERT_TRUE(exported.ok());
  EXPECT_EQ(exported->adapter, "adapter 0 at 1.000000");
  ASSERT_TRUE(tiny_.engine().import_session({}, "copy", *exported).ok());
  EXPECT_NE(refused(in_session("copy", " next", 5)), "");
  EXPECT_EQ(refused(with(in_session("copy", " next", 5), 0)), "");
}

TEST_P(EngineAdapters, AnAdapterLivesAsLongAsItsRows) {
  const std::string prompt = "kept by its row alone";
  const std::string whole = bytes_of(tiny_.run(with(fresh(prompt, 40), 0)));
  const auto row = tiny_.submit({with(fresh(prompt, 40), 0)});
  adapters_.clear();
  EXPECT_EQ(bytes_of(row->finished().at(0)), whole);
}

INSTANTIATE_TEST_SUITE_P(Versions, EngineAdapters, ::testing::Values(7, 6));

}  // namespace
}  // namespace fulmar
