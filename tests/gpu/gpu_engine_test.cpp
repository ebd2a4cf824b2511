// The engine on a GPU: what it does there beside the model's steps.
#include <cmath>
#include <map>

#include "gpu/gpu_device.h"
#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using testing::TinyEngine;
using Tokens = std::vector<int32_t>;

const EngineOptions kOptions{.slots = 4, .prefill_chunk = 16};
constexpr int64_t kHeadSize = 64;  // the one that fused kernels know
constexpr double kLogprobError = 0.05;
constexpr size_t kCompared = 10;  // of the CPU's likeliest, each of which is among the GPU's 20

std::vector<std::vector<float>> some_state(const ModelConfig& config, float scale) {
  std::vector<std::vector<float>> wkv(static_cast<size_t>(config.n_layer));
  for (auto& layer : wkv) {
    for (int64_t i = 0; i < config.n_embd * config.head_size; i++) {
      layer.push_back(scale * std::sin(static_cast<float>(i * i % 9973)));
    }
  }
  return wkv;
}

// What may come after the prompt and these tokens, likeliest first.
std::vector<TokenLogprob> likeliest(TinyEngine& tiny, Ask ask, const Tokens& after) {
  for (size_t i = 0; i < after.size(); i++) {
    BannedAt all_but_one{.position = static_cast<int64_t>(i), .ids = {}};
    for (int32_t id = 0; id < 256; id++) {
      if (id != after[i]) all_but_one.ids.push_back(id);
    }
    ask.banned_at.push_back(std::move(all_but_one));
  }
  ask.sampling.top_logprobs = 20;
  ask.max_tokens = static_cast<int64_t>(after.size()) + 1;
  const testing::RowLog row = tiny.run(ask);
  EXPECT_EQ(row.records.size(), after.size() + 1);
  for (size_t i = 0; i < after.size(); i++) EXPECT_EQ(row.records.at(i).token, after[i]);
  return row.records.at(after.size()).top;
}

class GpuEngine : public GpuTest, public ::testing::WithParamInterface<int> {};

TEST_P(GpuEngine, MixturesOfStatesAreTheCpus) {
  auto opened = open_test_gpu();
  ASSERT_TRUE(opened.ok());
  TinyEngine cpu(kOptions, GetParam(), nullptr, make_cpu_ops({.threads = 1}), kHeadSize);
  TinyEngine gpu(kOptions, GetParam(), nullptr, std::move(opened).value(), kHeadSize);
  for (TinyEngine* tiny : {&cpu, &gpu}) {
    const ModelConfig& config = tiny->model().config();
    ASSERT_TRUE(
        tiny->engine().add_states({{"one", some_state(config, 1)}, {"two", some_state(config, -2)}}).ok());
  }
  const int tokens_each = under_racecheck() ? 2 : 4;
  for (const std::string prompt : {"q", "what the members are fed, longer than one chunk of a mixture"}) {
    if (under_racecheck() && prompt.size() > 1) continue;
    Ask ask = TinyEngine::greedy(prompt, 1);
    ask.state.mixture = {{"one", 3}, {"two", 1.5}, {"", 1.5}};
    Tokens drawn;
    for (int step = 0; step < tokens_each; step++) {
      SCOPED_TRACE("'" + prompt + "' and " + std::to_string(step) + " tokens");
      const auto want = likeliest(cpu, ask, drawn), got = likeliest(gpu, ask, drawn);
      std::map<int32_t, double> found;
      for (const TokenLogprob& one : got) found[one.token] = one.logprob;
      for (size_t i = 0; i < kCompared; i++) {
        ASSERT_TRUE(found.contains(want.at(i).token)) << "place " << i;
        EXPECT_NEAR(found[want[i].token], want[i].logprob, kLogprobError) << "place " << i;
      }
      drawn.push_back(want[0].token);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, GpuEngine, ::testing::ValuesIn(kVersions));

}  // namespace
}  // namespace fulmar
