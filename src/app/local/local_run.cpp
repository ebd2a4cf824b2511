#include "app/local/local_run.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <limits>
#include <random>

#include "app/core/option_checks.h"
#include "base/mailbox.h"

namespace fulmar {

namespace {

volatile std::sig_atomic_t interrupted = 0;

class Inbox final : public Listener {
 public:
  void deliver(std::vector<Event> events) override { events_.put(std::move(events)); }
  Mailbox<std::vector<Event>>& events() { return events_; }

 private:
  Mailbox<std::vector<Event>> events_;
};

}  // namespace

void add_sampling_flags(CLI::App& app, SamplingFlags& flags) {
  app.add_option("-n,--max-tokens", flags.max_tokens, "most tokens to generate")
      ->check(whole(0, kMostTokens))
      ->capture_default_str();
  app.add_option("-t,--temperature", flags.temperature, "0 is greedy")
      ->check(within(0.0, 1000.0))
      ->capture_default_str();
  app.add_option("--top-k", flags.top_k, "0 is no limit")->check(whole(0, 1 << 30))->capture_default_str();
  app.add_option("--top-p", flags.top_p, "0 is greedy")->check(within(0.0, 1.0))->capture_default_str();
  app.add_option("--min-p", flags.min_p)->check(within(0.0, 1.0))->capture_default_str();
  app.add_option("--presence", flags.presence, "penalty of a token's first repetition")
      ->check(within(-1000.0, 1000.0))
      ->capture_default_str();
  app.add_option("--frequency", flags.frequency, "penalty of each further one")
      ->check(within(-1000.0, 1000.0))
      ->capture_default_str();
  app.add_option("--decay", flags.decay, "of penalties, per token")
      ->check(within(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "makes a draw repeatable")
      ->check(whole(0, std::numeric_limits<uint64_t>::max()))
      ->each([&flags](const std::string&) { flags.seeded = true; });
  app.add_option("--stop", flags.stops, "text that ends the output (may be given several times)")->take_all();
}

SamplingParams sampling_of(const SamplingFlags& flags) {
  SamplingParams params;
  params.temperature = static_cast<float>(flags.temperature);
  params.top_k = flags.top_k;
  params.top_p = static_cast<float>(flags.top_p);
  params.min_p = static_cast<float>(flags.min_p);
  params.presence = static_cast<float>(flags.presence);
  params.frequency = static_cast<float>(flags.frequency);
  params.decay = static_cast<float>(flags.decay);
  params.seed = flags.seeded ? flags.seed : std::random_device{}();
  return params;
}

Result<LocalEngine> open_local(ModelFlags model, int64_t device_sessions) {
  EngineOptions options{
      .slots = 1, .device_sessions = device_sessions, .prefix_slots = 0, .prefixes = {.host_bytes = 0}};
  options.speculation.ngrams = true;
  model.devices.revocable = options.speculation.most + 1;
  LocalEngine local;
  FULMAR_ASSIGN(local.loaded, load_model(model));
  const LoadedModel& loaded = local.loaded;
  if (loaded.fixed_cuts) options.prompt_piece = options.prefill_chunk;
  FULMAR_ASSIGN(local.engine, Engine::start(*loaded.model, *loaded.tokenizer, options, nullptr));
  return local;
}

Result<Event> run_row(Engine& engine, Ask ask, const std::function<void(const std::string&)>& show) {
  auto inbox = std::make_shared<Inbox>();
  const std::string id = ask.request_id;
  Request request{.listener = inbox, .endpoint = "local", .model = {}};
  request.rows.push_back(std::move(ask));
  FULMAR_TRY(engine.submit(std::move(request)));

  interrupted = 0;
  const auto previous = std::signal(SIGINT, [](int) { interrupted = 1; });
  Result<Event> last = Error{ErrorKind::internal, "the engine ended without a last event"};
  for (bool over = false; !over;) {
    if (interrupted != 0) engine.cancel({}, id);
    for (auto& events : inbox->events().wait_all(std::chrono::milliseconds(50))) {
      for (Event& event : events) {
        if (!event.text.empty()) show(event.text);
        if (event.kind != Event::Kind::finished) continue;
        over = true;
        last = event.error ? Result<Event>(*event.error) : Result<Event>(std::move(event));
      }
    }
  }
  std::signal(SIGINT, previous);
  return last;
}

}  // namespace fulmar
