#include "app/local/local_run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <limits>
#include <random>

#include "adapters/adapter_flag.h"
#include "adapters/fit.h"
#include "adapters/live_form.h"
#include "app/core/option_checks.h"
#include "base/mailbox.h"
#include "base/sha256.h"
#include "files/mapped_file.h"

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

// Returns the error of what has no live form, with the command that merges it.
Error with_merge(const Error& error, const AdapterFlag& flag, const LoadedModel& loaded) {
  if (error.kind != ErrorKind::unsupported) return error;
  std::string options;
  for (const auto& [name, value] : {std::pair("alpha", flag.options.alpha), {"scale", flag.options.scale}}) {
    if (value) options += fmt::format(" --{} {}", name, *value);
  }
  if (!flag.options.init.empty()) options += fmt::format(" --init '{}'", flag.options.init.string());
  return {error.kind, fmt::format("{}: fulmar merge '{}' '{}' merged.safetensors{}", error.text,
                                  loaded.path.string(), flag.path.string(), options)};
}

// Reads an adapter and compares it with the model's file.
Result<Adapter> read_for(const AdapterFlag& flag, const LoadedModel& loaded, const BaseShapes& shapes) {
  FULMAR_ASSIGN(Adapter adapter, read_adapter(flag.path, flag.options));
  Status fits = fit_adapter(adapter, shapes);
  if (fits.ok() && !adapter.base_fingerprint.empty()) {
    FULMAR_ASSIGN(const auto file, MappedFile::open(loaded.path));
    fits = check_fingerprint(adapter, sha256_hex(as_text(file->bytes())));
  }
  if (!fits.ok())
    return Error{fits.error().kind, fmt::format("{}: {}", flag.path.string(), fits.error().text)};
  return adapter;
}

// Puts an adapter beside the model.
Status adapt(const std::string& text, LocalEngine& local) {
  FULMAR_ASSIGN(const AdapterFlag flag, read_adapter_flag(text));
  FULMAR_ASSIGN(const auto checkpoint, open_checkpoint(local.loaded.path));
  const BaseShapes shapes = base_shapes(*checkpoint, local.loaded.model->config());
  FULMAR_ASSIGN(const Adapter adapter, read_for(flag, local.loaded, shapes));
  const auto form = live_form(adapter, *checkpoint, shapes);
  if (!form.ok()) return with_merge(form.error(), flag, local.loaded);
  auto device = local.engine->load_adapter(form->deltas);
  if (!device.ok()) return with_merge(device.error(), flag, local.loaded);
  local.adapter = {*std::move(device), 1, adapter.content_version};
  if (adapter.states.empty()) return {};
  local.initial_state = "adapter";
  return local.engine->add_states({{local.initial_state, state_numbers(adapter)}});
}

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

void add_adapter_flag(CLI::App& app, std::string& flag) {
  app.add_option(
      "--adapter", flag,
      "an adapter beside the model: PATH[,alpha=A][,scale=S][,init=FILE], the factors where the file "
      "holds none");
}

Result<LocalEngine> open_local(ModelFlags model, const std::string& adapter, int64_t device_sessions) {
  EngineOptions options{
      .slots = 1, .device_sessions = device_sessions, .prefix_slots = 0, .prefixes = {.host_bytes = 0}};
  options.speculation.ngrams = true;
  model.devices.revocable = options.speculation.most + 1;
  LocalEngine local;
  FULMAR_ASSIGN(local.loaded, load_model(model));
  const LoadedModel& loaded = local.loaded;
  if (loaded.fixed_cuts) options.prompt_piece = options.prefill_chunk;
  FULMAR_ASSIGN(local.engine, Engine::start(*loaded.model, *loaded.tokenizer, options, nullptr));
  if (!adapter.empty()) FULMAR_TRY(watched([&] { return adapt(adapter, local); }));
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
