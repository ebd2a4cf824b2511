// fulmar control: the control plane, until a signal says stop; SIGHUP reads the configuration file again.
#include <fmt/core.h>
#include <pthread.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>

#include "app/core/commands.h"
#include "app/core/exit_code.h"
#include "app/core/option_checks.h"
#include "app/core/variables.h"
#include "base/log.h"
#include "control/config_file.h"
#include "control/control_server.h"

namespace fulmar {
namespace {

struct ControlFlags {
  ControlOptions control;
  std::string config;
  std::vector<std::string> trusted_proxies;
  double grace_seconds = 8;
};

void add_flags(CLI::App& app, ControlFlags& flags) {
  ControlOptions& control = flags.control;
  app.add_option("--port", control.port, "0 takes a free one")
      ->check(whole(0, kMostPort))
      ->capture_default_str();
  app.add_option("--host", control.host, "address to listen on; 0.0.0.0 for every one")
      ->capture_default_str();
  app.add_option("--password", control.password, "required from clients (Bearer, HTTP Basic or X-Api-Key)")
      ->envname("FULMAR_PASSWORD");
  app.add_option("--allowed-host", control.allowed_hosts,
                 "without --password: a name by which clients may call this server; may be repeated")
      ->check(host_name())
      ->allow_extra_args(false);
  app.add_option(
         "--trusted-proxy", flags.trusted_proxies,
         "address or network (10.0.0.0/8) of a proxy whose X-Forwarded-For is believed; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--models-dir", control.models_dir, "workers may load models from below this folder only")
      ->check(CLI::ExistingDirectory);
  app.add_option("--sessions-dir", control.supervisor.state_dir, "folder for the workers' session files")
      ->check(CLI::ExistingDirectory);
  app.add_option("--config", flags.config, "YAML file with workers to keep running; SIGHUP reads it again")
      ->check(CLI::ExistingFile);
  app.add_option("--grace", flags.grace_seconds, "seconds from SIGTERM to SIGKILL when a worker is stopped")
      ->check(within(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--io-threads", control.io_threads)->check(whole(1, 64))->capture_default_str();
  app.footer(
      "Examples:\n"
      "  fulmar control --models-dir models\n"
      "  fulmar control --config workers.yaml --host 0.0.0.0 --password secret");
}

Status load_config(const ControlFlags& flags, ControlServer& server) {
  if (flags.config.empty()) return {};
  FULMAR_ASSIGN(auto specs, read_config(flags.config, {.models_dir = flags.control.models_dir,
                                                       .shared_store = flags.control.shared_store}));
  spdlog::info("configuration read file={} workers={}", flags.config, specs.size());
  server.supervisor().reconcile(std::move(specs));
  return {};
}

Result<int> control(ControlFlags flags) {
  sigset_t awaited;
  sigemptyset(&awaited);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&awaited, number);
  pthread_sigmask(SIG_BLOCK, &awaited, nullptr);  // before any thread starts, so that all inherit it

  FULMAR_ASSIGN(flags.control.trusted_proxies, read_networks(flags.trusted_proxies));
  FULMAR_ASSIGN(flags.control.supervisor.program, own_program());
  flags.control.supervisor.password = flags.control.password;
  const char* const store = std::getenv(kStoreVariable);
  flags.control.shared_store = store != nullptr && *store != '\0';
  flags.control.supervisor.grace =
      std::chrono::milliseconds(static_cast<int64_t>(flags.grace_seconds * 1000));
  FULMAR_ASSIGN(const auto server, ControlServer::start(flags.control));
  FULMAR_TRY(load_config(flags, *server));
  fmt::print("Fulmar's control plane: http://{}/\n", server->address());
  std::fflush(stdout);

  for (int number = 0;;) {
    sigwait(&awaited, &number);
    if (number != SIGHUP) break;
    if (const Status status = load_config(flags, *server); !status.ok()) {
      spdlog::error("configuration not changed: {}", status.error().text);
    }
  }
  spdlog::info("stopping grace={}s", flags.grace_seconds);
  server->stop();
  spdlog::info("stopped");
  return 0;
}

}  // namespace

void add_control(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<ControlFlags>();
  auto* command =
      app.add_subcommand("control", "Start, watch and route to workers; with a dashboard on port 9000");
  add_flags(*command, *flags);
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(control(*flags)); }; });
}

}  // namespace fulmar
