// A small synthetic model on the CPU with an engine around it, and a listener that remembers.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpu/cpu_ops.h"
#include "engine/engine.h"
#include "files/synthetic.h"
#include "model/model.h"
#include "text/byte_tokenizer.h"

namespace fulmar::testing {

// What became of one row.
struct RowLog {
  std::string text;
  std::vector<TokenRecord> records;
  std::optional<Event> last;
  int64_t admitted = 0;
  int64_t sampled = 0;
};

// Waits are bounded so that a broken engine fails the test instead of hanging it.
class RecordingListener final : public Listener {
 public:
  void deliver(std::vector<Event> events) override {
    std::lock_guard lock(mutex_);
    for (Event& event : events) {
      RowLog& row = rows_[event.index];
      row.text += event.text;
      row.sampled += event.sampled;
      for (TokenRecord& record : event.tokens) row.records.push_back(std::move(record));
      if (event.kind == Event::Kind::admitted) row.admitted++;
      if (event.kind == Event::Kind::finished) row.last = std::move(event);
    }
    changed_.notify_all();
  }

  template <class Condition>
  bool wait_until(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return condition(rows_); });
  }
  // The rows once the first `count` of them have finished.
  std::map<int32_t, RowLog> finished(size_t count = 1) {
    const bool done = wait_until([&](const auto& rows) {
      size_t ended = 0;
      for (const auto& [index, row] : rows) ended += row.last ? 1 : 0;
      return ended >= count;
    });
    EXPECT_TRUE(done) << "rows did not finish";
    std::lock_guard lock(mutex_);
    return rows_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int32_t, RowLog> rows_;
};

// States are written behind every third row, so that whatever saves, forks or pauses meets rows held in
// rings.
inline std::unique_ptr<Ops> deferring_ops() {
  return make_cpu_ops({.threads = 1, .state_writes = {.every = 3}});
}

// Byte vocabulary, so that every drawn token is a byte of text.
class TinyEngine {
 public:
  explicit TinyEngine(EngineOptions options = {.slots = 4, .prefill_chunk = 16}, int version = 7,
                      std::unique_ptr<SessionStore> store = nullptr,
                      std::unique_ptr<Ops> ops = deferring_ops(), int64_t head_size = 32)
      : ops_(std::move(ops)) {
    load(spec(version, head_size));
    start(options,
          std::make_shared<SessionLadder>(model_->fingerprint(), std::move(store), options.sessions));
  }
  // With all layers on each device, sliced.
  TinyEngine(EngineOptions options, std::vector<std::unique_ptr<Ops>> slices) : stages_(std::move(slices)) {
    const SyntheticSpec whole = spec(7, 64);
    const auto count = static_cast<int64_t>(stages_.size());
    std::vector<Placed> placed;
    for (int64_t i = 0; i < count; i++) {
      placed.push_back({stages_[static_cast<size_t>(i)].get(), {0, whole.n_layer}, {i, count}});
    }
    take(Model::load(synthetic_checkpoint(whole), placed, {.max_rows = 64}));
    start(options, std::make_shared<SessionLadder>(model_->fingerprint(), nullptr, options.sessions));
  }
  // With three layers on as many devices as there are, one to three.
  TinyEngine(EngineOptions options, std::vector<std::unique_ptr<Ops>> stages, int64_t steps_under_way,
             std::unique_ptr<SessionStore> store = nullptr)
      : stages_(std::move(stages)) {
    SyntheticSpec deeper = spec(7);
    deeper.n_layer = 3;
    const auto count = static_cast<int64_t>(stages_.size());
    std::vector<Placed> placed;
    for (int64_t i = 0; i < count; i++) {
      placed.push_back({stages_[static_cast<size_t>(i)].get(), {3 * i / count, 3 * (i + 1) / count}});
    }
    take(Model::load(synthetic_checkpoint(deeper), placed,
                     {.max_rows = 64, .steps_under_way = steps_under_way}));
    start(options,
          std::make_shared<SessionLadder>(model_->fingerprint(), std::move(store), options.sessions));
  }
  // On a ladder that other engines of the same version share; null: a first one, for ladder().
  TinyEngine(EngineOptions options, std::shared_ptr<SessionLadder> sessions) : ops_(deferring_ops()) {
    load(spec(7));
    if (!sessions)
      sessions = std::make_shared<SessionLadder>(model_->fingerprint(), nullptr, options.sessions);
    start(options, std::move(sessions));
  }

  static SyntheticSpec spec(int version, int64_t head_size = 32) {
    SyntheticSpec spec{.version = version, .n_layer = 2, .n_head = 2, .head_size = head_size, .vocab = 256};
    spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = spec.rank_mix = spec.rank_decay = 8;
    return spec;
  }

  std::shared_ptr<SessionLadder> ladder() const { return sessions_; }

  Engine& engine() { return *engine_; }
  Model& model() { return *model_; }
  Ops& ops() { return *ops_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  void stop() {
    engine_.reset();
    sessions_.reset();
  }

  static Ask greedy(const std::string& prompt, int64_t max_tokens) {
    Ask ask{.prompt = ByteTokenizer().Tokenizer::encode(prompt)};
    ask.sampling.temperature = 0;
    ask.max_tokens = max_tokens;
    return ask;
  }

  // Submits rows as one request under a fresh id.
  std::shared_ptr<RecordingListener> submit(std::vector<Ask> rows, std::string* id = nullptr,
                                            bool resumable = false,
                                            std::shared_ptr<const void> held = nullptr) {
    auto listener = std::make_shared<RecordingListener>();
    const std::string name = "request-" + std::to_string(++requests_);
    for (size_t i = 0; i < rows.size(); i++) {
      rows[i].request_id = name;
      rows[i].index = static_cast<int32_t>(i);
    }
    if (id != nullptr) *id = name;
    const Status status = engine_->submit(
        {.rows = std::move(rows), .listener = listener, .resumable = resumable, .held = std::move(held)});
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().text);
    return listener;
  }
  // One row to its end.
  RowLog run(Ask ask) {
    std::vector<Ask> rows;
    rows.push_back(std::move(ask));
    return submit(std::move(rows))->finished().at(0);
  }
  struct Said {
    std::string text;
    int64_t tokens = 0;
  };
  // A greedy row without end that is paused once it has drawn some tokens, resumed, and cancelled after some
  // more: all that it says.
  Said run_paused(const std::string& prompt) {
    const auto drawn = [](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 5; };
    std::string id;
    const auto first = submit({greedy(prompt, 1'000'000)}, &id, true);
    EXPECT_TRUE(first->wait_until(drawn));
    EXPECT_TRUE(engine_->pause({}, id).ok());
    const RowLog head = first->finished().at(0);
    const auto second = std::make_shared<RecordingListener>();
    EXPECT_TRUE(engine_->resume({}, id, -1, second).ok());
    EXPECT_TRUE(second->wait_until(drawn));
    EXPECT_TRUE(engine_->cancel({}, id));
    const RowLog tail = second->finished().at(0);
    return {head.text + tail.text, head.sampled + tail.sampled};
  }

 private:
  void load(const SyntheticSpec& spec) {
    take(Model::load(synthetic_checkpoint(spec), *ops_, {.max_rows = 64}));
  }
  void take(Result<std::unique_ptr<Model>> loaded) {
    EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().text);
    model_ = std::move(*loaded);
  }
  void start(const EngineOptions& options, std::shared_ptr<SessionLadder> sessions) {
    sessions_ = std::move(sessions);
    auto engine = Engine::start(*model_, tokenizer_, options, sessions_);
    EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().text);
    engine_ = std::move(*engine);
  }

  ByteTokenizer tokenizer_;
  std::unique_ptr<Ops> ops_;
  std::vector<std::unique_ptr<Ops>> stages_;
  std::unique_ptr<Model> model_;
  std::shared_ptr<SessionLadder> sessions_;
  std::unique_ptr<Engine> engine_;
  int requests_ = 0;
};

// A turn of a session; records carry the exact bytes of its answer.
inline Ask in_session(const std::string& id, const std::string& text, int64_t max_tokens = 4) {
  Ask ask = TinyEngine::greedy(text, max_tokens);
  ask.sampling.top_logprobs = 0;
  ask.use_prefix_cache = false;
  ask.state = {.read_session = id, .write_session = id};
  return ask;
}

// The same without a session.
inline Ask fresh(const std::string& text, int64_t max_tokens) {
  Ask ask = in_session("", text, max_tokens);
  ask.state = {};
  return ask;
}

inline std::string bytes_of(const RowLog& row) {
  std::string bytes;
  for (const TokenRecord& record : row.records) bytes += record.bytes;
  return bytes;
}

}  // namespace fulmar::testing
