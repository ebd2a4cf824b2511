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
#include "app/serve/first_model.h"
#include "app/serve/greeting.h"
#include "app/serve/heartbeat.h"
#include "app/serve/model_admin.h"
#include "app/serve/serve_flags.h"
#include "app/served/served_engine.h"
#include "base/exit_codes.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/version.h"
#include "net/host_check.h"
#include "net/worker_proof.h"
#include "server/core/api_keys.h"
#include "server/server.h"

namespace fulmar {

namespace {

// How long engines on a failed device may take to end.
constexpr std::chrono::seconds kLastSeconds{10};

// Returns a set of signals. One waiting thread takes them, never a handler.
sigset_t signals(std::initializer_list<int> numbers) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : numbers) sigaddset(&set, number);
  return set;
}

std::string sessions_place(const SessionFlags& flags, const SessionLadders& sessions) {
  if (!flags.state_store.empty()) return "in the shared store";
  if (!sessions.in_memory().empty()) return {};
  return flags.session_db == "none" ? std::string() : flags.session_db;
}

void greet(const Server& server, const ServedModelPtr& model, const Footing& footing, const ServeFlags& flags,
           const SessionLadders& sessions) {
  const Greeting facts{.version = std::string(program_version()),
                       .address = server.address(),
                       .model = model ? model->id : std::string(),
                       .footing = footing,
                       .io_threads = flags.server.io_threads,
                       .sessions = sessions_place(flags.engine.sessions, sessions),
                       .password = !flags.server.password.empty(),
                       .keys_file = flags.api_keys,
                       .open_to_others = !is_loopback_host(flags.server.host),
                       .open_translate = flags.opens("translate")};
  fmt::print("{}", greeting(facts));
  std::fflush(stdout);
}

// Starts a thread that the end of the process can do without: after a failure for lack of memory there may be
// none for its stack, and sessions must still be stored.
void start_if_possible(const std::string& name, std::function<void()> work) {
  try {
    Thread(name, std::move(work)).detach();
  } catch (const std::exception& failure) {
    spdlog::warn("no thread to be had name={} reason=\"{}\"", name, failure.what());
  }
}

// Ends the process soon, even if something hangs, such as the driver of a lost device.
void end_anyway(int code) {
  start_if_possible("end", [code] {
    std::this_thread::sleep_for(kLastSeconds);
    std::_Exit(code);
  });
}

// Opens the model of the command line on the administrator's thread, so that what clients ask of it meanwhile
// comes after. Returns nothing if a signal said stop before the model was served.
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
  FULMAR_ASSIGN(const auto adapters, start_adapters(flags.adapters));
  FULMAR_TRY(register_at_start(server.adapters(), adapters));
  server.loaded();
  return footing;
}

// Reads the keys again. An error in the file leaves the keys unchanged.
void reload_keys(const std::string& path, Server& server) {
  auto keys = read_api_keys(path);
  if (!keys.ok()) return spdlog::error("keys not changed: {}", keys.error().text);
  spdlog::info("keys read file={} keys={}", path, keys->size());
  server.replace_keys(std::move(*keys));
}

// Returns whether this process was started to outlive its terminal, as by nohup. sigwait would take a blocked
// signal even if it is ignored.
bool outlives_terminal() {
  struct sigaction hangup {};
  return ::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
}

// Waits for the signal that ends the server and returns it. SIGHUP reads the keys again if there is a file of
// them, else it ends the server: a terminal has closed. In between, free memory is returned to the system.
int await_end(const ServeFlags& flags, const sigset_t& awaited, Server& server) {
  constexpr timespec kBetweenReturns{10, 0};
  for (;;) {
    const int signal = sigtimedwait(&awaited, nullptr, &kBetweenReturns);
    if (signal < 0) {  // none came, or another one
      return_free_memory();
      continue;
    }
    if (signal != SIGHUP || flags.api_keys.empty()) return signal;
    reload_keys(flags.api_keys, server);
  }
}

// Starts the heartbeat; null without a directory.
Result<std::unique_ptr<Heartbeat>> announce(const ServeFlags& flags, const Server& server,
                                            const ServedModelPtr& model) {
  if (flags.directory.empty()) return std::unique_ptr<Heartbeat>();
  FULMAR_ASSIGN(const RedisAddress address, usable_redis_address(flags.directory));
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

// Ends the process at a second signal, without the grace period.
void end_at_second_signal(const sigset_t& ending) {
  start_if_possible("signals", [ending] {
    int again = 0;
    sigwait(&ending, &again);
    if (again == SIGINT) std::_Exit(130);
  });
}

// All parts of the server, in the order in which they start; they end in the opposite one.
struct Serving {
  ModelRegistry models;
  std::shared_ptr<std::atomic<bool>> engine_failed = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<std::atomic<int64_t>> responses_lost = std::make_shared<std::atomic<int64_t>>(0);
  std::unique_ptr<SessionLadders> sessions;
  std::unique_ptr<LocalAdmin> admin;
  std::unique_ptr<Server> server;
  std::unique_ptr<Heartbeat> heartbeat;  // null without a directory
};

// Starts the server. What fails fast comes before minutes of loading: the sessions' store, then the port,
// where /health reports progress. Returns false if a signal said stop before anything was served.
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
  FULMAR_ASSIGN(ServerOptions options, server_options(flags));
  options.sessions_in_memory = serving.sessions->in_memory();
  if (!options.sessions_in_memory.empty()) {  // and so do stored responses, whose file lies beside
    options.responses_db.clear();
    options.responses_in_memory = options.sessions_in_memory;
  }
  options.on_lost = [lost = serving.responses_lost](int64_t count) { *lost += count; };
  FULMAR_ASSIGN(serving.server, Server::start(options, serving.models, serving.admin.get()));
  std::optional<Footing> footing = Footing();
  if (options.loading) {
    FULMAR_ASSIGN(footing, load_first(flags, *serving.sessions, *serving.admin, *serving.server, ending));
  }
  if (!footing) return false;
  const ServedModelPtr model = serving.models.default_model();
  greet(*serving.server, model, *footing, flags, *serving.sessions);
  FULMAR_ASSIGN(serving.heartbeat, announce(flags, *serving.server, model));
  return true;
}

// Ends the process while its model is still being opened, which may take minutes: answers so far were the
// server's own, and there are no turns.
[[noreturn]] void stop_unserved(Serving& serving) {
  serving.server->stop(std::chrono::milliseconds(0));
  serving.server.reset();
  std::_Exit(0);
}

// Stops everything in order; returns the exit code.
int stop(Serving& serving) {
  if (serving.heartbeat) serving.heartbeat->drain();
  serving.admin->end_pulls();  // their streams are answers that the server would wait for
  const bool all_finished = serving.server->stop();
  spdlog::info("stopped {}", all_finished ? "all requests finished" : "some requests were cut short");
  serving.heartbeat.reset();
  // Responses are tried for as long as sessions are, which end with the engines.
  auto responses =
      serving.server->keep_storing(std::chrono::steady_clock::now() + SessionLadders::kLastTries);
  serving.server.reset();
  const bool failed = *serving.engine_failed;
  if (failed) end_anyway(kDeviceErrorExit);
  serving.admin.reset();  // engines pass their sessions to the ladders, and those to the store
  responses.reset();
  if (failed) return kDeviceErrorExit;
  const int64_t lost = serving.sessions->lost() + *serving.responses_lost;
  if (lost == 0) return 0;
  spdlog::error("stopped turns, erasures or responses that no store has: {}", lost);
  return kTurnsLostExit;
}

Result<int> serve(ServeFlags flags) {
  const bool keyed = !flags.api_keys.empty();
  const sigset_t all = signals({SIGINT, SIGTERM, SIGHUP}), both = signals({SIGINT, SIGTERM});
  const sigset_t ending = keyed || outlives_terminal() ? both : all;
  const sigset_t awaited = keyed ? all : ending;
  pthread_sigmask(SIG_BLOCK, &awaited, nullptr);  // before any thread starts, so that all inherit it
  ::umask(0077);  // conversations are private: files of this process are for its owner only
  flags.switch_models |= holds_several_models(flags.model.model);
  FULMAR_TRY(check_serve(flags));
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
  add_serve_flags(*command, *flags);
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(serve(*flags)); }; });
}

}  // namespace fulmar
