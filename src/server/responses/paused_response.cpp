#include "server/responses/paused_response.h"

#include <exception>
#include <utility>
#include <vector>

#include "base/log.h"
#include "server/responses/family.h"
#include "server/responses/responses_writer.h"

namespace fulmar {
namespace {

class ResumedListener : public Listener {
 public:
  ResumedListener(std::shared_ptr<Service> service, std::shared_ptr<PausedResponse> paused,
                  std::shared_ptr<Listener> reply)
      : service_(std::move(service)), paused_(std::move(paused)), reply_(std::move(reply)) {}

  // Takes the events, then passes them on. Catches every exception, because this runs on the engine's thread:
  // a failure leaves what was stored before.
  void deliver(std::vector<Event> events) override {
    try {
      for (const Event& event : events) take(event);
    } catch (const std::exception& failure) {
      spdlog::error("resumed response not stored reason=\"{}\"", failure.what());
      progress_.reset();
    }
    reply_->deliver(std::move(events));
  }

 private:
  void take(const Event& event) {
    if (event.kind == Event::Kind::admitted) progress_ = paused_->take();
    if (!progress_) return;
    write(split(event), std::nullopt);
    if (event.kind != Event::Kind::finished) return;
    if (event.reason == FinishReason::paused) {
      auto going_on = progress_->writer->without_service();
      end(event);
      progress_->writer = std::move(going_on);
      paused_->keep(std::move(progress_));
    } else {
      end(event);
    }
    progress_.reset();
  }

  SplitText split(const Event& event) {
    if (!progress_->splitter) return {{}, event.text};
    if (progress_->splitter->thinking()) progress_->reasoning_tokens += event.sampled;
    return progress_->splitter->feed(event.text);
  }

  void write(SplitText text, const std::optional<Ending>& ending) {
    if (!ending && text.reasoning.empty() && text.content.empty()) return;
    std::vector<std::string> unused;
    progress_->writer->write_piece({.reasoning = std::move(text.reasoning),
                                    .content = std::move(text.content),
                                    .tokens = {},
                                    .ending = ending},
                                   unused);
  }

  // Stores the answer as it is now.
  void end(const Event& event) {
    std::optional<ReasoningSplitter> splitter = progress_->splitter;
    write(splitter ? splitter->finish() : SplitText{},
          Ending{event.reason, event.stop_id, event.stop_text, event.wrote_session});
    if (event.error) progress_->writer->note_fault(api_error(*event.error));
    if (paused_->removed()) return;
    Totals totals = totals_of(event.usage);
    totals.reasoning_tokens = progress_->reasoning_tokens;
    service_->families.responses->store.put(progress_->writer->stored_form(totals));
  }

  const std::shared_ptr<Service> service_;
  const std::shared_ptr<PausedResponse> paused_;
  const std::shared_ptr<Listener> reply_;
  std::unique_ptr<ResponseProgress> progress_;
};

}  // namespace

void PausedResponse::keep(std::unique_ptr<ResponseProgress> progress) {
  std::lock_guard lock(mutex_);
  progress_ = std::move(progress);
}

std::unique_ptr<ResponseProgress> PausedResponse::take() {
  std::lock_guard lock(mutex_);
  return std::move(progress_);
}

void PausedResponse::remove() {
  std::lock_guard lock(mutex_);
  removed_ = true;
}

bool PausedResponse::removed() const {
  std::lock_guard lock(mutex_);
  return removed_;
}

std::shared_ptr<PausedResponse> PausedResponses::add(const std::string& id) {
  auto added = std::make_shared<PausedResponse>();
  std::lock_guard lock(mutex_);
  std::erase_if(by_id_, [](const auto& one) { return one.second.expired(); });
  by_id_[id] = added;
  return added;
}

std::shared_ptr<PausedResponse> PausedResponses::find(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.lock();
}

std::shared_ptr<Listener> resumed_listener(const std::shared_ptr<Service>& service, const std::string& id,
                                           std::shared_ptr<Listener> reply) {
  auto paused = service->families.responses->paused.find(id);
  if (!paused) return reply;
  return std::make_shared<ResumedListener>(service, std::move(paused), std::move(reply));
}

}  // namespace fulmar
