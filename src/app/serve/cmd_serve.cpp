// fulmar serve: models with their engines, the HTTP server, until a signal says stop.
#include <fmt/core.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <future>
#include <thread>

#include "app/core/commands.h"
#include "app/core/exit_code.h"
#include "app/core/model_source.h"
#include "app/core/within.h"
#include "app/serve/first_model.h"
#include "app/serve/greeting.h"
#include "app/serve/heartbeat.h"
#include "app/serve/model_admin.h"
#include "app/served/served_engine.h"
#include "base/exit_codes.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/version.h"
#include "files/model_files.h"
#include "net/worker_proof.h"
#include "server/core/api_keys.h"
#include "server/server.h"

namespace fulmar {

namespace {

// How long engines on a failed device have for their ends.
constexpr std::chrono::seconds kLastSeconds{10};

struct ServeFlags {
  ModelFlags model;
  ServeEngineFlags engine;
  ServerOptions server;
  double grace_seconds = 30;
  double drain_delay_seconds = 0;
  std::string api_keys;
  std::string directory;
  WorkerRecord record;
  std::vector<std::string> trusted_proxies;
  int64_t body_mib = 64;
  AdminOptions admin;
  double download_gib = 512;
  std::string sampling_defaults = "native";  // native, model, openai
  bool switch_models = false;                // the model is a folder of which clients load one
  std::string config;                        // read before the words are parsed

  bool no_model() const { return model.model == "none"; }
};

// Adds where the server listens and whom it lets in.
void add_door_flags(CLI::App& app, ServeFlags& flags) {
  ServerOptions& server = flags.server;
  app.add_option("--host", server.host, "address to listen on; 0.0.0.0 for every one")->capture_default_str();
  app.add_option("--port", server.port, "0 takes a free one")->capture_default_str();
  app.add_option("--password", server.password, "required from clients (JSON field, Bearer or X-Api-Key)")
      ->envname("FULMAR_PASSWORD");
  app.add_option("--api-keys", flags.api_keys,
                 "file of keys with limits of their own, see `fulmar keys`; SIGHUP reads it again")
      ->envname("FULMAR_API_KEYS");
  app.add_option("--allowed-host", server.allowed_hosts,
                 "without password and keys: a name by which clients may call this server; may be repeated")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  app.add_option(
         "--trusted-proxy", flags.trusted_proxies,
         "address or network (10.0.0.0/8) of a proxy whose X-Forwarded-For is believed; may be repeated")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  app.add_flag("--auth-all", server.auth_all, "ask for the password on model lists and status pages, too")
      ->group("");
  app.add_flag("--open-translate", server.open_translate, "let /translate through without a password");
}

// Adds what holds where a request says nothing, and the bounds of what it may say.
void add_request_flags(CLI::App& app, ServeFlags& flags) {
  ServerOptions& server = flags.server;
  app.add_option("--sampling-defaults", flags.sampling_defaults,
                 "for what a request does not say: native, the defaults of this server; model, for chats the "
                 "advice of the model's authors; openai, those of OpenAI's API: completions of 16 tokens, "
                 "chats without top_k, top_p and penalties")
      ->check(CLI::IsMember({"native", "model", "openai"}))
      ->capture_default_str();
  app.add_flag("--strict-model", server.strict_model, "404 for unknown model names");
  app.add_option("--max-tokens-limit", server.limits.max_tokens, "larger max_tokens are clamped")
      ->capture_default_str();
  app.add_option("--max-request-rows", server.limits.max_request_rows, "rows of one request")
      ->capture_default_str();
  app.add_option("--max-body-mib", flags.body_mib, "larger request bodies are refused")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--io-threads", server.io_threads, "threads that read and write connections")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->group("");
}

// Adds how the server ends, which files it takes from clients, and where it is announced.
void add_admin_flags(CLI::App& app, ServeFlags& flags) {
  app.add_option("--grace", flags.grace_seconds, "seconds that running requests may take after SIGTERM")
      ->check(within(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--drain-delay", flags.drain_delay_seconds,
                 "seconds after SIGTERM in which /health answers 503 and everything else goes on")
      ->check(within(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--mrssmax", flags.server.limits.max_mixture_files, "tuned states of one mixture")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->group("");
  app.add_option(
         "--state-dir", flags.admin.states,
         "folder in which tuned states that clients send are kept; without it they go with the server")
      ->check(CLI::ExistingDirectory);
  app.add_option("--model-root", flags.admin.root, "files that clients name must lie below this folder")
      ->check(CLI::ExistingDirectory);
  app.add_option("--max-download-gib", flags.download_gib, "bytes that one pull from a hub may fetch")
      ->check(within(0.001, 1e6))
      ->capture_default_str();
  app.add_flag("--switch-models", flags.switch_models,
               "take --model as a folder of models, however many it holds")
      ->group("");
  app.add_option("--directory", flags.directory,
                 "redis:// or rediss:// address at which to announce this worker")
      ->envname("FULMAR_DIRECTORY");
  app.add_option("--announce-as", flags.record.name, "name in the directory; default: host name and port");
  app.add_option("--announce-host", flags.record.host,
                 "numeric address under which others reach this worker");
}

void add_flags(CLI::App& app, ServeFlags& flags) {
  add_model_flags(app, flags.model);
  app.get_option("--model")->description(
      "model file (.pth, .safetensors, .st, .gguf, .rwkvq), folder with one model, or the name of an "
      "installed "
      "one; default: the bundled demo model. A folder with several: /v1/model/load serves one of them. none: "
      "start without one, 503 until /loadmodel brings one");
  add_engine_flags(app, flags.engine);
  add_door_flags(app, flags);
  add_request_flags(app, flags);
  add_admin_flags(app, flags);
  app.add_option(
      "--config", flags.config,
      "file with these options, a line each, such as port = 8080; the command line goes before it");
  app.footer(
      "Examples:\n"
      "  fulmar serve\n"
      "  fulmar serve -m rwkv7-g1-1.5b.pth --port 8080 --slots 64\n"
      "  fulmar serve --devices 0,1,2,3 --tp 2\n"
      "  fulmar serve --host 0.0.0.0 --password secret\n"
      "  fulmar serve --as rwkv_lightning -- ARGS   the options of another server's start script");
}

// Signals are taken by one waiting thread, never by a handler.
sigset_t signals(std::initializer_list<int> numbers) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : numbers) sigaddset(&set, number);
  return set;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string sessions_place(const SessionFlags& flags) {
  if (!flags.state_store.empty()) return "in the shared store";
  return flags.session_db == "none" ? std::string() : flags.session_db;
}

void greet(const Server& server, const ServedModelPtr& model, const Footing& footing,
           const ServeFlags& flags) {
  const Greeting facts{.version = std::string(program_version()),
                       .address = server.address(),
                       .model = model ? model->id : std::string(),
                       .footing = footing,
                       .io_threads = flags.server.io_threads,
                       .sessions = sessions_place(flags.engine.sessions),
                       .password = !flags.server.password.empty(),
                       .keys_file = flags.api_keys,
                       .open_to_others = !is_loopback(flags.server.host),
                       .open_translate = flags.server.open_translate};
  fmt::print("{}", greeting(facts));
  std::fflush(stdout);
}

// Starts a thread that the end of the process can do without: after a failure for want of memory there may be
// none for its stack, and sessions are still to be stored.
void start_if_possible(const std::string& name, std::function<void()> work) {
  try {
    Thread(name, std::move(work)).detach();
  } catch (const std::exception& failure) {
    spdlog::warn("no thread to be had name={} reason=\"{}\"", name, failure.what());
  }
}

// Ends the process soon, whatever else hangs: a driver may, once its device is lost.
void end_anyway(int code) {
  start_if_possible("end", [code] {
    std::this_thread::sleep_for(kLastSeconds);
    std::_Exit(code);
  });
}

// Opens the model of the command line on the administrator's thread, so that what clients ask of it meanwhile
// comes after. Nothing when a signal said stop before the model was served.
Result<std::optional<Footing>> load_first(const ServeFlags& flags, SessionLadders& sessions,
                                          LocalAdmin& admin, Server& server, const sigset_t& ending) {
  using Opened = Result<std::optional<Footing>>;
  // All that the job uses but the loading itself: it may outlive this function.
  const auto first = std::make_shared<FirstModel>();
  const auto opened = std::make_shared<std::promise<Opened>>();
  std::future<Opened> outcome = opened->get_future();
  admin.post([first, opened, &flags, &sessions, &admin] {
    try {
      auto served = ServedEngine::open(flags.model, flags.engine, sessions);
      if (!served.ok()) return opened->set_value(served.error());
      Footing footing = (*served)->footing();
      first->serve([&] { admin.adopt(std::move(*served)); });
      opened->set_value(std::optional(std::move(footing)));
    } catch (const std::exception& failure) {
      opened->set_value(Error{ErrorKind::resource, fmt::format("cannot load the model: {}", failure.what())});
    }
  });
  constexpr timespec kMoment{0, 50'000'000};
  while (outcome.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    const int signal = sigtimedwait(&ending, nullptr, &kMoment);
    if (signal <= 0) continue;
    if (first->end()) return std::optional<Footing>();
    ::kill(::getpid(), signal);  // for the thread that waits for signals, once the start is over
    break;
  }
  FULMAR_ASSIGN(auto footing, outcome.get());
  server.loaded();
  return footing;
}

// What is wrong with the file leaves the keys as they are.
void reload_keys(const std::string& path, Server& server) {
  auto keys = read_api_keys(path);
  if (!keys.ok()) return spdlog::error("keys not changed: {}", keys.error().text);
  spdlog::info("keys read file={} keys={}", path, keys->size());
  server.replace_keys(std::move(*keys));
}

// Beside the sessions that hold their states, where those are kept in a file; else none.
std::string responses_file(const SessionFlags& flags) {
  if (!flags.state_store.empty() || flags.session_db.empty() || flags.session_db == "none") return {};
  return std::filesystem::path(flags.session_db).replace_extension(".responses.db").string();
}

// True when whoever started this process wants it to outlive its terminal, as nohup does. A blocked signal
// that is ignored would be taken by sigwait all the same.
bool outlives_terminal() {
  struct sigaction hangup {};
  return ::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
}

// The signal that ends the server; SIGHUP reads the keys again, where there is a file of them, and else ends
// it like the others: a terminal has closed. In between free memory is given back.
int await_end(const ServeFlags& flags, const sigset_t& awaited, Server& server) {
  constexpr timespec kBetweenReturns{10, 0};
  for (;;) {
    const int signal = sigtimedwait(&awaited, nullptr, &kBetweenReturns);
    if (signal < 0) {  // none came, or one that is not ours
      return_free_memory();
      continue;
    }
    if (signal != SIGHUP || flags.api_keys.empty()) return signal;
    reload_keys(flags.api_keys, server);
  }
}

// Null without a directory.
Result<std::unique_ptr<Heartbeat>> announce(const ServeFlags& flags, const Server& server,
                                            const ServedModelPtr& model) {
  if (flags.directory.empty()) return std::unique_ptr<Heartbeat>();
  FULMAR_ASSIGN(const RedisAddress address, parse_redis_url(flags.directory));
  WorkerRecord record = flags.record;
  if (record.host.empty()) record.host = flags.server.host;
  record.port = server.port();
  record.model = model ? model->id : std::string();
  if (record.name.empty()) {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    record.name = fmt::format("{}-{}", host.data(), record.port);
  }
  return std::make_unique<Heartbeat>(redis_directory(address), std::move(record));
}

// Whether the path is a folder of several models, as files or as folders of their own.
bool holds_several_models(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return false;
  const auto one = find_model_files(path);
  if (one.ok() || one.error().kind != ErrorKind::not_found)
    return !one.ok() && one.error().kind == ErrorKind::invalid;
  int64_t models = 0;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    models += entry->is_directory(error) && find_model_files(entry->path()).ok();
  }
  return models > 1;
}

Status check(const ServeFlags& flags) {
  FULMAR_TRY(check_speculation(flags.engine));
  std::error_code error;
  if (!flags.switch_models || std::filesystem::is_directory(flags.model.model, error)) return {};
  return Error{ErrorKind::invalid,
               fmt::format("--model is '{}'; wanted a folder of models", flags.model.model)};
}

// The server's options, from flags that have another form.
Result<ServerOptions> server_options(const ServeFlags& flags) {
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  };
  ServerOptions options = flags.server;
  if (!flags.api_keys.empty()) {
    FULMAR_ASSIGN(options.api_keys, read_api_keys(flags.api_keys));
  }
  FULMAR_ASSIGN(options.trusted_proxies, read_networks(flags.trusted_proxies));
  if (const char* token = std::getenv(kWorkerTokenVariable)) options.worker_token = token;
  options.responses_db = responses_file(flags.engine.sessions);
  options.responses_db_asked_for = flags.engine.sessions.session_db_asked_for;
  options.responses_durable = flags.engine.sessions.durable;
  options.recommended_sampling = flags.sampling_defaults == "model";
  options.openai_defaults = flags.sampling_defaults == "openai";
  options.loading = !flags.no_model() && !flags.switch_models;
  options.drain_delay = milliseconds(flags.drain_delay_seconds);
  options.grace = milliseconds(flags.grace_seconds);
  options.prefill_chunk = flags.engine.prefill_chunk;
  options.share_prefixes = flags.engine.share_prefixes;
  options.limits.max_body_bytes = static_cast<size_t>(flags.body_mib) << 20;
  return options;
}

// For models that clients load: a draft model is for the model of the command line, others may have another
// vocabulary.
ServeEngineFlags flags_of_others(const ServeEngineFlags& flags) {
  ServeEngineFlags others = flags;
  others.draft_model.clear();
  if (others.speculate == "model") others.speculate = "off";
  return others;
}

// A second signal does not wait for the grace period.
void end_at_second_signal(const sigset_t& ending) {
  start_if_possible("signals", [ending] {
    int again = 0;
    sigwait(&ending, &again);
    if (again == SIGINT) std::_Exit(130);
  });
}

// All that serves, in the order in which it starts; it ends in the opposite one.
struct Serving {
  ModelRegistry models;
  std::shared_ptr<std::atomic<bool>> engine_failed = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<SessionLadders> sessions;
  std::unique_ptr<LocalAdmin> admin;
  std::unique_ptr<Server> server;
  std::unique_ptr<Heartbeat> heartbeat;  // null without a directory
};

// What fails fast comes before minutes of loading: the sessions' store, then the port, at which /health tells
// what goes on. False when a signal said stop before anything was served.
Result<bool> start(ServeFlags& flags, const sigset_t& ending, Serving& serving) {
  flags.engine.on_failure = [failed = serving.engine_failed](const std::string&) {
    *failed = true;
    ::kill(::getpid(), SIGTERM);  // taken by the thread that waits for signals
  };
  FULMAR_ASSIGN(serving.sessions, SessionLadders::open(flags.engine.sessions));
  if (flags.switch_models) flags.admin.folder = flags.model.model;
  flags.admin.most_pull_bytes = static_cast<int64_t>(flags.download_gib * (1 << 30));
  serving.admin = std::make_unique<LocalAdmin>(serving.models, *serving.sessions, flags.model,
                                               flags_of_others(flags.engine), flags.admin);
  FULMAR_TRY(serving.admin->states_listed());
  FULMAR_ASSIGN(const ServerOptions options, server_options(flags));
  FULMAR_ASSIGN(serving.server, Server::start(options, serving.models, serving.admin.get()));
  std::optional<Footing> footing = Footing();
  if (options.loading) {
    FULMAR_ASSIGN(footing, load_first(flags, *serving.sessions, *serving.admin, *serving.server, ending));
  }
  if (!footing) return false;
  const ServedModelPtr model = serving.models.default_model();
  greet(*serving.server, model, *footing, flags);
  FULMAR_ASSIGN(serving.heartbeat, announce(flags, *serving.server, model));
  return true;
}

// Ends the process while its model is still being opened, which may take minutes: what was answered so far is
// the server's own, and there are no turns.
[[noreturn]] void stop_unserved(Serving& serving) {
  serving.server->stop(std::chrono::milliseconds(0));
  serving.server.reset();
  std::_Exit(0);
}

// The exit code.
int stop(Serving& serving) {
  if (serving.heartbeat) serving.heartbeat->drain();
  serving.admin->end_pulls();  // their streams are answers that the server would wait for
  const bool all_finished = serving.server->stop();
  spdlog::info("stopped {}", all_finished ? "all requests finished" : "some requests were cut short");
  serving.heartbeat.reset();
  serving.server.reset();
  const bool failed = *serving.engine_failed;
  if (failed) end_anyway(kDeviceErrorExit);
  serving.admin.reset();  // engines hand their sessions to the ladders, and those to the store
  if (failed) return kDeviceErrorExit;
  if (serving.sessions->lost() == 0) return 0;
  spdlog::error("stopped turns or erasures that no store has: {}", serving.sessions->lost());
  return kTurnsLostExit;
}

Result<int> serve(ServeFlags flags) {
  const bool keyed = !flags.api_keys.empty();
  const sigset_t all = signals({SIGINT, SIGTERM, SIGHUP}), both = signals({SIGINT, SIGTERM});
  const sigset_t ending = keyed || outlives_terminal() ? both : all;
  const sigset_t awaited = keyed ? all : ending;
  pthread_sigmask(SIG_BLOCK, &awaited, nullptr);  // before any thread starts, so that all inherit it
  ::umask(0077);  // conversations are nobody else's business: what this process writes is for its owner alone
  flags.switch_models |= holds_several_models(flags.model.model);
  FULMAR_TRY(check(flags));
  Serving serving;
  FULMAR_ASSIGN(const bool served, start(flags, ending, serving));
  if (!served) stop_unserved(serving);
  const int signal = await_end(flags, awaited, *serving.server);
  spdlog::info("stopping signal={} grace={}s", signal, flags.grace_seconds);
  end_at_second_signal(ending);
  return stop(serving);
}

}  // namespace

void add_serve(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<ServeFlags>();
  auto* command =
      app.add_subcommand("serve", "Serve a model over HTTP: OpenAI API, native APIs and a chat page");
  // Of an option given twice, under whatever name, the last one counts: arguments of a worker's file come
  // after those of the control plane.
  command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_flags(*command, *flags);
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(serve(*flags)); }; });
}

}  // namespace fulmar
