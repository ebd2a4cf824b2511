#include "app/bench/engine_load.h"

#include <chrono>
#include <latch>
#include <memory>

namespace fulmar {
namespace {

using Clock = std::chrono::steady_clock;

// Writes one stream's record; on the engine thread only.
class Recorder : public Listener {
 public:
  Recorder(AnswerRecord& record, Clock::time_point start, std::latch& unfinished)
      : record_(record), start_(start), unfinished_(unfinished) {}

  void deliver(std::vector<Event> events) override {
    for (const Event& event : events) {
      const double at = std::chrono::duration<double>(event.at - start_).count();
      if (!event.text.empty()) record_.text_at.push_back(at);
      if (event.kind != Event::Kind::finished) continue;
      record_.ended_at = at;
      record_.done = true;
      if (event.reason == FinishReason::length) record_.finish_reason = "length";
      if (event.error) record_.fault = event.error->text;
      unfinished_.count_down();
    }
  }

 private:
  AnswerRecord& record_;
  const Clock::time_point start_;
  std::latch& unfinished_;
};

}  // namespace

Result<std::vector<AnswerRecord>> run_on_engine(Engine& engine, const Tokenizer& tokenizer,
                                                std::span<const std::string> prompts, int64_t tokens) {
  std::vector<AnswerRecord> records(prompts.size());
  std::latch unfinished(static_cast<ptrdiff_t>(prompts.size()));
  const auto start = Clock::now();
  Status refused;
  for (size_t i = 0; i < prompts.size(); i++) {
    Ask ask;
    ask.request_id = "bench-" + std::to_string(i);
    ask.prompt = tokenizer.encode(prompts[i]);
    ask.max_tokens = tokens;
    ask.sampling.seed = i;
    Request request;
    request.listener = std::make_shared<Recorder>(records[i], start, unfinished);
    request.endpoint = "bench";
    request.rows.push_back(std::move(ask));
    if (Status submitted = engine.submit(std::move(request)); !submitted.ok()) {
      refused = std::move(submitted);
      unfinished.count_down();
    }
  }
  unfinished.wait();
  FULMAR_TRY(refused);
  return records;
}

}  // namespace fulmar
