#include "app/served/engine_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "app/core/option_checks.h"
#include "app/core/replaced.h"
#include "ops/ring.h"

namespace fulmar {

namespace {

constexpr double kMostMiB = 16 << 20;  // no machine has this much

// Adds how many sequences run at once and how many may wait.
void add_queue_flags(CLI::App& app, ServeEngineFlags& flags) {
  app.option_defaults()->group("Load");
  app.add_option("--slots", flags.slots, "sequences that run at once; auto fits the memory")
      ->transform(CLI::Transformer(std::map<std::string, std::string>{{"auto", "0"}}).description(""))
      ->check(whole(0, kMostRows))
      ->default_str("auto");
  app.add_option("--prefill-chunk", flags.prefill_chunk, "most prompt tokens of one step; 0 suits the device")
      ->check(whole(0, kMostRows))
      ->capture_default_str();
  app.add_option("--max-queue", flags.max_queue, "requests that may wait; more are answered with 503")
      ->check(whole(1, kMostRows))
      ->capture_default_str();
  app.add_option("--max-prompt-tokens", flags.max_prompt_tokens, "longer prompts are refused; 0: none is")
      ->check(whole(0, kMostTokens))
      ->capture_default_str();
  replaced(app.add_option("--max-waiting-rows", flags.max_waiting_rows)->check(whole(1, kMostRows)),
           "is not needed: it follows from --max-queue");
  replaced(app.add_option("--max-waiting-mib", flags.max_waiting_mib)->check(whole(1, 1 << 20)),
           "is not needed: it follows from --max-queue");
}

// Adds how many sessions and prompt prefixes are kept.
void add_cache_flags(CLI::App& app, ServeEngineFlags& flags) {
  app.option_defaults()->group("Sessions and prompt beginnings");
  app.add_option(
         "--cache-device", flags.cache.device_mib,
         "MiB of the device, half for sessions, half for prompt beginnings; unless given 16 states of each")
      ->check(within(0.0, kMostMiB));
  app.add_option("--cache-host", flags.cache.host_mib,
                 "the same of host memory; unless given 32 sessions and 512 MiB of beginnings")
      ->check(within(0.0, kMostMiB));
  CacheShares& unsaid = flags.cache.unsaid;
  const auto counted = [&](const char* name, auto& value, const char* now, std::string& given) {
    replaced(
        app.add_option(name, value)->check(whole(0, kMostRows))->each([&given, name](const std::string&) {
          given = name;
        }),
        fmt::format("is spelled {} MIB now, for sessions and prompt beginnings", now));
  };
  counted("--l1-capacity", unsaid.device_sessions, "--cache-device", flags.cache.device_count);
  counted("--prefix-slots", unsaid.device_prefixes, "--cache-device", flags.cache.device_count);
  counted("--l2-capacity", unsaid.host_sessions, "--cache-host", flags.cache.host_count);
  counted("--prefix-host-mib", unsaid.host_prefix_mib, "--cache-host", flags.cache.host_count);
  app.add_flag("--share-prefixes", flags.share_prefixes,
               "prompt beginnings of one key serve others, who can tell by the time");
}

// Adds where sessions are stored and for how long.
void add_session_flags(CLI::App& app, ServeEngineFlags& flags) {
  app.add_option("--state-db-path", flags.sessions.session_db,
                 "SQLite file of sessions; none: in memory only")
      ->each([&flags](const std::string&) { flags.sessions.session_db_asked_for = true; })
      ->capture_default_str();
  app.add_option(
         "--state-store", flags.sessions.state_store,
         "Redis that workers share, in the file's place: redis[s]://[[user]:password@]host[:port][/database]")
      ->envname(kStoreVariable);
  app.add_option("--session-ttl-days,--state-ttl-days", flags.sessions.ttl_days,
                 "days that a session is kept after its last turn; 0: for ever, as in a file; Redis: 30")
      ->check(within(0.0, 36500.0));
  app.add_option("--session-max-gib", flags.sessions.max_gib,
                 "what the store keeps; the oldest go; 0: no bound")
      ->check(within(0.0, 1048576.0))
      ->capture_default_str();
  app.add_option("--session-queue-mib", flags.sessions.queue_mib,
                 "turns that may wait for a store that is away")
      ->check(whole(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--state-flush-seconds", flags.sessions.flush_seconds,
                 "a committed turn is on disk at most this much later")
      ->check(within(0.01, 3600.0))
      ->capture_default_str()
      ->group("");
  app.add_flag("--durable-sessions", flags.sessions.durable,
               "end a turn once it is on disk: not even a power failure loses it");
}

// Adds drafts, and settings that a vocabulary lacks.
void add_text_flags(CLI::App& app, ServeEngineFlags& flags) {
  app.option_defaults()->group("Speculative decoding");
  app.add_option(
         "--speculate", flags.speculate,
         "draft tokens from earlier text (ngram) or by --draft-model (model); auto: what suits the device")
      ->check(CLI::IsMember({"auto", "off", "ngram", "model"}))
      ->capture_default_str();
  app.add_option("--draft-model", flags.draft_model, "small model with the same vocabulary");
  app.add_option("--speculate-most", flags.speculate_most, "most drafted tokens of a sequence and step")
      ->check(whole(1, kMostDeferred - 1))
      ->capture_default_str()
      ->group("");
  app.add_option("--think-template", flags.think_template, "auto, g1 or none")
      ->check(CLI::IsMember({"auto", "g1", "none"}))
      ->capture_default_str()
      ->group("");
  app.add_option("--eos-id", flags.eos_id, "id that ends a text, or 'none'; default: the vocabulary's own")
      ->group("");
}

}  // namespace

void add_engine_flags(CLI::App& app, ServeEngineFlags& flags) {
  add_queue_flags(app, flags);
  add_cache_flags(app, flags);
  add_session_flags(app, flags);
  add_text_flags(app, flags);
}

Status check_engine_flags(const ServeEngineFlags& flags) {
  const auto both = [](const std::string& old, std::string_view now) {
    return Error{ErrorKind::invalid, fmt::format("{0} and {1} both say {1}; wanted one of them", old, now)};
  };
  const CacheFlags& cache = flags.cache;
  if (cache.device_mib && !cache.device_count.empty()) return both(cache.device_count, "--cache-device");
  if (cache.host_mib && !cache.host_count.empty()) return both(cache.host_count, "--cache-host");
  if (flags.speculate == "model" && flags.draft_model.empty()) {
    return Error{ErrorKind::invalid, "--speculate is model; wanted --draft-model FILE with it"};
  }
  if (!flags.draft_model.empty() && flags.speculate != "auto" && flags.speculate != "model") {
    return Error{
        ErrorKind::invalid,
        fmt::format("--speculate is {}; wanted auto or model beside --draft-model", flags.speculate)};
  }
  return {};
}

}  // namespace fulmar
