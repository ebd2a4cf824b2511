#include "app/serve/serve_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>

#include "app/core/option_checks.h"
#include "cache/redis_address.h"
#include "files/model_files.h"
#include "net/worker_proof.h"
#include "server/core/api_keys.h"

namespace fulmar {

namespace {

// Makes an option one that is given once for each value.
CLI::Option* repeatable(CLI::Option* option) {
  return option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false);
}

// Adds the options of the served model.
void add_what_flags(CLI::App& app, ServeFlags& flags) {
  app.option_defaults()->group("Model");
  add_file_flags(app, flags.model);
  app.get_option("--model")->description(
      "file, folder or name of an installed model; a folder of several: clients choose; none: "
      "/loadmodel brings one");
  add_template_flag(app, flags.model.chat_template);
  app.option_defaults()->group("Device");
  add_device_flags(app, flags.model.devices);
  add_state_flags(app, flags.model.devices);
}

// Adds where the server listens, who has access and how it ends.
void add_door_flags(CLI::App& app, ServeFlags& flags) {
  ServerOptions& server = flags.server;
  app.option_defaults()->group("Server");
  app.add_option("--host", server.host, "address to listen on; 0.0.0.0 for every one")->capture_default_str();
  app.add_option("--port", server.port, "0 takes a free one")
      ->check(whole(0, kMostPort))
      ->capture_default_str();
  app.add_option("--grace", flags.grace_seconds, "seconds that running requests have after SIGTERM")
      ->check(within(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--drain-delay", flags.drain_delay_seconds,
                 "seconds after SIGTERM in which /health alone answers 503")
      ->check(within(0.0, 86400.0))
      ->capture_default_str();
  app.option_defaults()->group("Keys");
  app.add_option("--password", server.password, "required from clients")->envname("FULMAR_PASSWORD");
  app.add_option("--api-keys", flags.api_keys,
                 "file of keys with limits (`fulmar keys`); SIGHUP reads it again")
      ->envname("FULMAR_API_KEYS");
  repeatable(app.add_option("--open", flags.open,
                            "translate: its routes ask for no key, like model lists and status pages; "
                            "none: these ask, too"))
      ->delimiter(',')
      ->check(CLI::IsMember({"translate", "none"}));
  repeatable(app.add_option("--allowed-host", server.allowed_hosts,
                            "without keys: a name by which clients may call this server; repeatable"))
      ->check(host_name());
  repeatable(app.add_option("--trusted-proxy", flags.trusted_proxies,
                            "address or network (10.0.0.0/8) whose X-Forwarded-For is believed; repeatable"));
}

// Adds the defaults of requests, and the bounds of their values.
void add_request_flags(CLI::App& app, ServeFlags& flags) {
  ServerOptions& server = flags.server;
  app.option_defaults()->group("Requests");
  app.add_option("--sampling-defaults", flags.sampling_defaults,
                 "where a request says nothing: Fulmar's own, the advice of the model's authors, or OpenAI's")
      ->check(CLI::IsMember({"native", "model", "openai"}))
      ->capture_default_str();
  app.add_flag("--strict-model", server.strict_model, "404 for unknown model names");
  app.add_option("--max-tokens-limit", server.limits.max_tokens, "larger max_tokens are clamped")
      ->check(whole(1, kMostTokens))
      ->capture_default_str();
  app.add_option("--max-request-rows", server.limits.max_request_rows, "rows of one request")
      ->check(whole(1, kMostRows))
      ->capture_default_str();
  app.add_option("--max-body-mib", flags.body_mib, "larger request bodies are refused")
      ->check(whole(1, 4096))
      ->capture_default_str();
  app.add_option("--io-threads", server.io_threads, "threads that read and write connections")
      ->check(whole(1, 64))
      ->capture_default_str()
      ->group("");
}

// Adds which files the server accepts from clients, and where it is announced.
void add_admin_flags(CLI::App& app, ServeFlags& flags) {
  app.option_defaults()->group("Files of clients");
  app.add_option("--mrssmax", flags.server.limits.max_mixture_files, "tuned states of one mixture")
      ->check(whole(1, 64))
      ->capture_default_str()
      ->group("");
  app.add_option("--state-dir", flags.admin.states,
                 "folder for tuned states that clients send; without it they end with the server")
      ->check(CLI::ExistingDirectory);
  app.add_option("--model-root", flags.admin.root, "files that clients name must lie in this folder")
      ->check(CLI::ExistingDirectory);
  app.add_option("--max-download-gib", flags.download_gib, "most that one pull from a hub may fetch")
      ->check(within(0.001, 1e6))
      ->capture_default_str();
  app.add_flag("--switch-models", flags.switch_models,
               "take --model as a folder of models, however many it holds")
      ->group("");
  app.option_defaults()->group("Several workers");
  app.add_option("--directory", flags.directory, "Redis at which to announce this worker: redis[s]://...")
      ->envname("FULMAR_DIRECTORY");
  app.add_option("--announce-as", flags.record.name, "name in the directory; default: host name and port");
  app.add_option("--announce-host", flags.record.host, "numeric address at which others reach this worker");
}

// Returns the file beside that of the sessions, which hold the responses' states;
// none if there is no such file.
std::string responses_file(const SessionFlags& flags) {
  if (!flags.state_store.empty() || flags.session_db.empty() || flags.session_db == "none") return {};
  return std::filesystem::path(flags.session_db).replace_extension(".responses.db").string();
}

}  // namespace

void add_serve_flags(CLI::App& app, ServeFlags& flags) {
  // Of an option given twice, under any of its names, the last one counts: arguments of a worker's file
  // follow those of the control plane.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--config", flags.config,
                 "file of these options, such as port = 8080; the command line goes before");
  add_what_flags(app, flags);
  add_door_flags(app, flags);
  add_request_flags(app, flags);
  add_engine_flags(app, flags.engine);
  add_adapter_flags(app, flags.adapters);
  add_admin_flags(app, flags);
  app.footer(
      "Examples:\n"
      "  fulmar serve\n"
      "  fulmar serve -m rwkv7-g1-1.5b.pth --port 8080 --slots 64\n"
      "  fulmar serve --devices 0,1,2,3 --tp 2\n"
      "  fulmar serve --host 0.0.0.0 --password secret\n"
      "  fulmar serve --as rwkv_lightning -- ARGS   the options of another server's start script\n"
      "docs/operations.md explains each, and some for experts that are not listed.");
}

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

Status check_serve(const ServeFlags& flags) {
  FULMAR_TRY(check_engine_flags(flags.engine));
  const char* const store = std::getenv(kStoreVariable);
  FULMAR_TRY(
      check_sessions(flags.engine.sessions, store != nullptr && flags.engine.sessions.state_store == store));
  if (!flags.record.name.empty() && flags.directory.empty()) {
    return Error{ErrorKind::invalid,
                 fmt::format("--announce-as is '{}'; wanted --directory with it", flags.record.name)};
  }
  if (!flags.directory.empty()) FULMAR_TRY(usable_redis_address(flags.directory));
  FULMAR_ASSIGN(const auto adapters, start_adapters(flags.adapters));
  if (!adapters.empty() && (flags.no_model() || flags.switch_models)) {
    return Error{
        ErrorKind::invalid,
        fmt::format("adapter '{}' has no model at start; wanted --model with one", adapters.front().name)};
  }
  std::error_code error;
  if (!flags.switch_models || std::filesystem::is_directory(flags.model.model, error)) return {};
  return Error{ErrorKind::invalid,
               fmt::format("--model is '{}'; wanted a folder of models", flags.model.model)};
}

Result<ServerOptions> server_options(const ServeFlags& flags) {
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  };
  ServerOptions options = flags.server;
  options.auth_all = flags.opens("none");
  options.open_translate = flags.opens("translate");
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
  options.adapters = adapter_limits(flags.adapters);
  options.limits.max_body_bytes = static_cast<size_t>(flags.body_mib) << 20;
  return options;
}

ServeEngineFlags flags_of_others(const ServeEngineFlags& flags) {
  ServeEngineFlags others = flags;
  others.draft_model.clear();
  if (others.speculate == "model") others.speculate = "off";
  return others;
}

}  // namespace fulmar
