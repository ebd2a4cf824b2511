// A deterministic GPU gives a sequence the same bits whatever shares its steps; an engine on it gives the
// same tokens under load, with drafts, and behind sessions.
#include <fmt/format.h>

#include <cmath>

#include "gpu/gpu_models.h"
#include "support/company.h"
#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using support::company_slots;
using support::expect_same_trace;
using support::ModelRig;
using support::play_in_company;
using support::SlotTrace;
using testing::RowLog;
using testing::TinyEngine;

constexpr int64_t kMostRows = 320;
constexpr int32_t kVocab = 1028;

struct GpuCompanyCase {
  int version;
  DType activation;
  const char* quantised;  // or null
  bool half_state;
  int64_t every;  // M
};

class GpuCompany : public GpuTest, public ::testing::WithParamInterface<GpuCompanyCase> {
 protected:
  std::unique_ptr<ModelRig> rig(DeviceOptions options) {
    options.activation = GetParam().activation;
    options.half_state = GetParam().half_state;
    options.state_writes = {.every = GetParam().every, .revocable = drafts() ? 6 : 0};
    devices_.push_back(opened_gpu(options));
    if (!devices_.back()) return nullptr;
    SyntheticSpec spec = two_layers(GetParam().version, 8, 2048, 64, kVocab);
    spec.ffn_zeros = 0.8;
    if (GetParam().quantised != nullptr) spec.quantisation = quantisation_named(GetParam().quantised);
    return std::make_unique<ModelRig>(synthetic_checkpoint(spec), *devices_.back(), company_slots(kMostRows),
                                      LoadOptions{.max_rows = 512, .max_wanted = 512});
  }
  static bool drafts() { return GetParam().every > 1; }
  static std::vector<int64_t> numbers_of_rows() {
    if (under_racecheck()) return {2, 9};
    return {2, 5, 8, 9, 17, 33, 64, 129, kMostRows};
  }

  std::vector<std::unique_ptr<Ops>> devices_;
};

TEST_P(GpuCompany, ChangesNoBit) {
  const auto with = rig({.deterministic = true});
  ASSERT_TRUE(with && with->loaded());
  const SlotTrace alone = play_in_company(*with, {.rows = 1}, drafts(), kVocab);
  for (const int64_t rows : numbers_of_rows()) {
    for (const bool mixed : {false, true}) {
      expect_same_trace(play_in_company(*with, {rows, mixed}, drafts(), kVocab), alone,
                        fmt::format("{} rows{}", rows, mixed ? ", mixed" : ""));
    }
  }
}

TEST_P(GpuCompany, AgreesWithTheQuickestWays) {
  const auto with = rig({.deterministic = true}), without = rig({});
  ASSERT_TRUE(with && without && with->loaded() && without->loaded());
  const double bound = GetParam().activation == DType::bf16 ? 0.1 : 0.03;
  for (const int64_t rows : {1, 40}) {
    const SlotTrace got = play_in_company(*with, {rows, true}, drafts(), kVocab),
                    want = play_in_company(*without, {rows, true}, drafts(), kVocab);
    ASSERT_EQ(got.logits.size(), want.logits.size());
    for (size_t i = 0; i < want.logits.size(); i++) {
      EXPECT_LT(support::relative_error(got.logits[i], want.logits[i]), bound) << rows << " rows, row " << i;
    }
  }
}

// The first test can fail: without the option, other numbers of rows are added up in another order.
TEST_P(GpuCompany, ShowsWithoutTheOption) {
  const auto without = rig({});
  ASSERT_TRUE(without && without->loaded());
  EXPECT_NE(play_in_company(*without, {64, true}, drafts(), kVocab).logits,
            play_in_company(*without, {1, false}, drafts(), kVocab).logits);
}

INSTANTIATE_TEST_SUITE_P(Kinds, GpuCompany,
                         ::testing::Values(GpuCompanyCase{7, DType::f16, nullptr, false, 1},
                                           GpuCompanyCase{7, DType::f16, nullptr, false, 4},
                                           GpuCompanyCase{7, DType::f16, nullptr, true, 1},
                                           GpuCompanyCase{7, DType::f16, nullptr, true, 4},
                                           GpuCompanyCase{7, DType::bf16, nullptr, false, 4},
                                           GpuCompanyCase{7, DType::f16, "q4_k", false, 4},
                                           GpuCompanyCase{7, DType::f16, "q8_0", true, 1},
                                           GpuCompanyCase{7, DType::bf16, "q4_k", false, 1},
                                           GpuCompanyCase{6, DType::f16, nullptr, false, 1},
                                           GpuCompanyCase{6, DType::f16, nullptr, true, 4}),
                         [](const auto& made) {
                           const GpuCompanyCase& one = made.param;
                           return fmt::format("Rwkv{}{}{}{}M{}", one.version, name_of(one.activation),
                                              one.quantised != nullptr ? one.quantised : "",
                                              one.half_state ? "HalfStates" : "", one.every);
                         });

// ---- the engine

struct Load {
  int64_t others = 0;  // requests beside it
  bool drafts = false;
  bool by_session = false;  // in two turns, the second behind a session
};

class GpuDeterministicEngine : public GpuTest, public ::testing::WithParamInterface<bool> {
 protected:
  static RowLog run(const Load& load, const std::string& prompt) {
    DeviceOptions device{.half_state = GetParam(), .deterministic = true};
    if (load.drafts) device.state_writes = {.every = 1, .revocable = 8};
    auto opened = opened_gpu(device);
    if (!opened) return {};
    EngineOptions options{.slots = 12, .prefill_chunk = 32, .prompt_piece = 16};
    options.speculation = {.ngrams = load.drafts, .most = 7, .always = true};
    // Too few device slots for the sessions of all: some are restored from host memory.
    options.device_sessions = load.others > 0 ? 1 : 4;
    TinyEngine tiny(options, 7, nullptr, std::move(opened), 64);
    std::vector<Ask> others;
    for (int64_t i = 0; i < load.others; i++) {
      Ask ask = TinyEngine::greedy(
          fmt::format("{} of those beside it, {}", i, std::string(size_t(i) * 7, 'x')), 60 + i);
      ask.sampling.temperature = 1;
      ask.sampling.seed = static_cast<uint64_t>(i);
      ask.state.write_session = fmt::format("other {}", i);
      others.push_back(std::move(ask));
    }
    const auto beside = others.empty() ? nullptr : tiny.submit(std::move(others));
    Ask ask = TinyEngine::greedy(prompt, 64);
    ask.sampling.temperature = 0.8f;
    ask.sampling.seed = 3;
    ask.sampling.top_logprobs = 2;
    if (!load.by_session) return tiny.run(std::move(ask));
    ask.state.write_session = "its own";
    Ask second = ask;
    second.state.read_session = "its own";
    RowLog log = tiny.run(std::move(ask));
    if (beside) beside->finished(static_cast<size_t>(load.others));
    second.prompt = TinyEngine::greedy("q", 1).prompt;
    RowLog more = tiny.run(std::move(second));
    log.text += more.text;
    for (TokenRecord& record : more.records) log.records.push_back(std::move(record));
    return log;
  }
  static void expect_same(const RowLog& got, const RowLog& want, const std::string& what) {
    EXPECT_EQ(got.text, want.text) << what;
    ASSERT_EQ(got.records.size(), want.records.size()) << what;
    for (size_t i = 0; i < want.records.size(); i++) {
      EXPECT_EQ(got.records[i].token, want.records[i].token) << what << ", token " << i;
      EXPECT_EQ(got.records[i].logprob, want.records[i].logprob) << what << ", token " << i;
    }
  }
};

TEST_P(GpuDeterministicEngine, GivesTheSameTokensUnderLoadAndWithDrafts) {
  if (under_racecheck()) GTEST_SKIP() << "an engine's steps take minutes";
  for (const std::string prompt :
       {"abc abc abc abc abc ", "a prompt that is longer than two of its pieces of sixteen"}) {
    const RowLog alone = run({}, prompt);
    ASSERT_FALSE(alone.records.empty());
    expect_same(run({.others = 10}, prompt), alone, "under load");
    expect_same(run({.drafts = true}, prompt), alone, "with drafts");
    expect_same(run({.others = 10, .drafts = true}, prompt), alone, "under load, with drafts");
  }
}

TEST_P(GpuDeterministicEngine, GivesTheSameTokensBehindASession) {
  if (under_racecheck()) GTEST_SKIP() << "an engine's steps take minutes";
  const RowLog alone = run({.by_session = true}, "the first turn of two");
  expect_same(run({.others = 10, .by_session = true}, "the first turn of two"), alone, "under load");
}

INSTANTIATE_TEST_SUITE_P(States, GpuDeterministicEngine, ::testing::Values(false, true),
                         [](const auto& made) { return made.param ? "Half" : "Wide"; });

}  // namespace
}  // namespace fulmar
