// Steps that a GPU begins before the host knows the tokens in front of them (engine/run_ahead.h), against
// steps that wait for each token; on one GPU, and on two that share all layers.
#include <cstdlib>
#include <optional>
#include <ostream>
#include <vector>

#include "gpu/gpu_device.h"
#include "gpu/gpu_models.h"
#include "support/random_asks.h"
#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using testing::expect_equal;
using testing::keep_company;
using testing::RandomAsks;
using testing::RowLog;
using testing::TinyEngine;

struct Form {
  const char* name;
  bool half_state = true;
  int64_t every = 1;  // rows behind which states are written
  int devices = 1;
  int version = 7;

  friend void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }
};

// FULMAR_RUN_AHEAD_REQUESTS: how many random requests; the default takes seconds.
int64_t requests_wanted() {
  const char* const wanted = std::getenv("FULMAR_RUN_AHEAD_REQUESTS");
  return wanted != nullptr ? std::max<int64_t>(1, std::atoll(wanted)) : 60;
}

class GpuRunAhead : public GpuTest, public ::testing::WithParamInterface<Form> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (under_racecheck()) GTEST_SKIP() << "an engine's steps take minutes";
    if (static_cast<int>(list_gpus().size()) < GetParam().devices) GTEST_SKIP() << "this machine has one GPU";
    waiting_ = engine(false);
    ahead_ = engine(true);
  }

  static std::unique_ptr<TinyEngine> engine(bool run_ahead) {
    const Form& form = GetParam();
    EngineOptions options{.slots = 24, .prefill_chunk = 16};
    options.run_ahead = run_ahead;
    std::vector<std::unique_ptr<Ops>> devices;
    for (int i = 0; i < form.devices; i++) {
      DeviceOptions device{.index = i, .half_state = form.half_state, .state_writes = {.every = form.every}};
      // Run-ahead has requests join later steps, and how many rows share one shows in bits there.
      device.deterministic = without_matrix_units();
      devices.push_back(opened_gpu(device));
    }
    if (form.devices > 1) return std::make_unique<TinyEngine>(options, std::move(devices));
    return std::make_unique<TinyEngine>(options, form.version, nullptr, std::move(devices.front()), 64);
  }

  struct Answer {
    RowLog row;
    std::optional<StateBlob> session;  // that it has written to
  };
  static Answer answer_of(TinyEngine& tiny, Ask ask) {
    const std::string session = ask.state.write_session;
    Answer answer{tiny.run(std::move(ask)), {}};
    if (session.empty()) return answer;
    auto exported = tiny.engine().export_session({}, session);
    if (exported.ok()) answer.session = std::move(*exported);
    return answer;
  }

  // One engine after the other: steps of two models that share the same GPUs would wait for one another.
  template <class Answers>
  void expect_equal_answers(const Answers& answers_of) {
    const std::vector<Answer> want = answers_of(*waiting_), got = answers_of(*ahead_);
    ASSERT_EQ(want.size(), got.size());
    for (size_t i = 0; i < want.size() && !HasFailure(); i++) {
      SCOPED_TRACE("request " + std::to_string(i));
      expect_equal(want[i].row, got[i].row);
      ASSERT_EQ(want[i].session.has_value(), got[i].session.has_value());
      if (!want[i].session) continue;
      EXPECT_EQ(want[i].session->tokens, got[i].session->tokens);
      EXPECT_EQ(want[i].session->payload, got[i].session->payload) << "the state, bit for bit";
    }
  }

  std::unique_ptr<TinyEngine> waiting_, ahead_;
};

TEST_P(GpuRunAhead, RandomRequestsAnswerAsWithoutIt) {
  expect_equal_answers([](TinyEngine& tiny) {
    const std::string company = keep_company(tiny);
    RandomAsks asks(11);
    std::vector<Answer> answers;
    for (int64_t i = 0; i < requests_wanted(); i++) answers.push_back(answer_of(tiny, asks.next()));
    EXPECT_TRUE(tiny.engine().cancel({}, company));
    return answers;
  });
}

// A row alone, whose kernels are others, ended by one of many ids, turn after turn of a session.
TEST_P(GpuRunAhead, ALoneRowThatAnIdEndsLeavesItsSessionAsWithoutIt) {
  int ended_by_id = 0;
  expect_equal_answers([&](TinyEngine& tiny) {
    std::vector<Answer> answers;
    for (int turn = 0; turn < 30; turn++) {
      Ask one = testing::in_session("session", std::string(1, static_cast<char>('a' + turn % 20)), 40);
      one.sampling.temperature = 1;
      one.sampling.seed = static_cast<uint64_t>(turn);
      for (int32_t id = turn % 7; id < 256; id += 23) one.stop.ids.push_back(id);
      answers.push_back(answer_of(tiny, std::move(one)));
      ended_by_id += answers.back().row.last && answers.back().row.last->stop_id ? 1 : 0;
    }
    return answers;
  });
  EXPECT_GT(ended_by_id, 20) << "of both engines";
}

INSTANTIATE_TEST_SUITE_P(Forms, GpuRunAhead,
                         ::testing::Values(Form{"HalfStates"}, Form{"FloatStatesDeferred", false, 4},
                                           Form{"Rwkv6", true, 1, 1, 6}, Form{"TwoGpus", true, 1, 2},
                                           Form{"TwoGpusDeferred", false, 4, 2}),
                         [](const auto& form) { return form.param.name; });

}  // namespace
}  // namespace fulmar
