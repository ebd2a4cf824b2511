#include "server/responses/gathering_listener.h"

#include <exception>
#include <utility>

#include "base/log.h"

namespace fulmar {
namespace {

class GatheringListener : public Listener {
 public:
  GatheringListener(std::unique_ptr<ResponsesWriter> writer, std::optional<ReasoningMode> split,
                    KeyShare share, Gathered done)
      : writer_(std::move(writer)), share_(std::move(share)), done_(std::move(done)) {
    if (split) splitter_.emplace(*split);
  }

  // Gathers the events into the response. Catches every exception, because this runs on the engine's thread:
  // a failure ends this response alone.
  void deliver(std::vector<Event> events) override {
    if (over_) return;
    std::optional<StoredResponse> answer;
    bool cut = false;
    try {
      for (Event& event : events) {
        if (const auto revoked = refuse_revoked(share_.account)) {
          over_ = cut = true;
          answer = failed(*revoked);
          break;
        }
        take(event);
        if (event.kind != Event::Kind::finished) continue;
        over_ = true;
        answer = answer_of(event);
        cut = is_cut(event.reason);
        break;
      }
    } catch (const std::exception& failure) {
      spdlog::error("response in the background failed reason=\"{}\"", failure.what());
      over_ = true;
      answer = failed({500, "the answer could not be written", {}, {}, {}});
    }
    if (!over_) return;
    share_.rows = RowLease();
    done_(std::move(answer), cut);
  }

 private:
  void add(const SplitText& text) {
    choice_.reasoning += text.reasoning;
    choice_.content += text.content;
  }

  void take(const Event& event) {
    if (share_.account && event.sampled > 0) share_.account->charge_generated(event.sampled, event.at);
    if (!splitter_) {
      choice_.content += event.text;
      return;
    }
    if (splitter_->thinking()) reasoning_tokens_ += event.sampled;
    add(splitter_->feed(event.text));
  }

  StoredResponse answer_of(Event& event) {
    if (event.reason == FinishReason::failed) {
      const Error error = event.error.value_or(Error{ErrorKind::internal, "generation failed"});
      return writer_->as_stored(writer_->write_failure(api_error(error)));
    }
    if (splitter_) add(splitter_->finish());
    choice_.ending = {event.reason, event.stop_id, std::move(event.stop_text), event.wrote_session};
    choice_.usage = event.usage;
    Totals totals = totals_of(event.usage);
    totals.reasoning_tokens = reasoning_tokens_;
    std::vector<Choice> choices;
    choices.push_back(std::move(choice_));
    return writer_->as_stored(writer_->write_whole(std::move(choices), totals));
  }

  std::optional<StoredResponse> failed(const ApiError& error) {
    try {
      return writer_->as_stored(writer_->write_failure(error));
    } catch (const std::exception& failure) {
      spdlog::error("failure of a response not written reason=\"{}\"", failure.what());
      return std::nullopt;
    }
  }

  const std::unique_ptr<ResponsesWriter> writer_;
  KeyShare share_;
  const Gathered done_;
  std::optional<ReasoningSplitter> splitter_;
  Choice choice_;
  int64_t reasoning_tokens_ = 0;
  bool over_ = false;
};

}  // namespace

std::shared_ptr<Listener> gathering_listener(std::unique_ptr<ResponsesWriter> writer,
                                             std::optional<ReasoningMode> split, KeyShare share,
                                             Gathered done) {
  return std::make_shared<GatheringListener>(std::move(writer), split, std::move(share), std::move(done));
}

}  // namespace fulmar
