// fulmar keys: the file of --api-keys, entry by entry.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>

#include "app/core/commands.h"
#include "app/core/exit_code.h"
#include "app/core/option_checks.h"
#include "app/core/output.h"
#include "app/keys/key_file.h"
#include "server/core/api_keys.h"
#include "server/routes.h"

namespace fulmar {
namespace {

struct KeyFlags {
  std::string file = "api-keys.json";
  ApiKey key;
};

auto entry_named(std::vector<ApiKey>& keys, const std::string& name) {
  return std::find_if(keys.begin(), keys.end(), [&](const ApiKey& key) { return key.name == name; });
}

// Fails for a path of the key that is no route: it must be a typing error.
Status check_routes(const ApiKey& key) {
  for (const std::string& route : key.routes) {
    if (opens_a_route(route)) continue;
    return Error{
        ErrorKind::invalid,
        fmt::format("--route is '{}', which is no path of a route; wanted one of docs/api.md, such as "
                    "/v1/chat/completions or /v1/*",
                    route)};
  }
  return {};
}

Result<int> add_key(const KeyFlags& flags) {
  FULMAR_TRY(check_routes(flags.key));
  FULMAR_ASSIGN(const std::string secret, make_key());
  const auto append = [&](std::vector<ApiKey>& keys) -> Status {
    if (entry_named(keys, flags.key.name) != keys.end()) {
      return Error{ErrorKind::conflict,
                   fmt::format("'{}' holds a key '{}' already; remove it first", flags.file, flags.key.name)};
    }
    keys.push_back(flags.key);
    keys.back().hash = hash_of_key(secret);
    FULMAR_TRY(parse_api_keys(format_api_keys(keys)));  // for names and routes that the server would refuse
    fmt::print("{}\n", secret);  // before its hash is kept: a key that nobody has seen is none
    return flush_output();
  };
  FULMAR_TRY(change_api_keys(flags.file, true, append));
  fmt::print(stderr, "The key of '{}' is shown this once; '{}' holds its hash.\n", flags.key.name,
             flags.file);
  return 0;
}

Result<int> list_keys(const KeyFlags& flags) {
  FULMAR_ASSIGN(const std::vector<ApiKey> keys, read_api_keys(flags.file));
  const auto limit = [](int64_t value) { return value > 0 ? std::to_string(value) : std::string("-"); };
  fmt::print("{:<24} {:>12} {:>12} {:>8}  {}\n", "name", "requests/min", "tokens/min", "rows", "routes");
  for (const ApiKey& key : keys) {
    fmt::print("{:<24} {:>12} {:>12} {:>8}  {}\n", key.name, limit(key.requests_per_minute),
               limit(key.tokens_per_minute), limit(key.max_rows),
               key.admin            ? "all, and what is others'"
               : key.routes.empty() ? "all but administration"
                                    : fmt::format("{}", fmt::join(key.routes, " ")));
  }
  return 0;
}

Result<int> remove_key(const KeyFlags& flags) {
  FULMAR_TRY(change_api_keys(flags.file, false, [&](std::vector<ApiKey>& keys) -> Status {
    const auto found = entry_named(keys, flags.key.name);
    if (found == keys.end()) {
      return Error{ErrorKind::not_found, fmt::format("'{}' holds no key '{}'", flags.file, flags.key.name)};
    }
    keys.erase(found);
    return {};
  }));
  return 0;
}

void add_verb(CLI::App& app, const std::shared_ptr<KeyFlags>& flags, Command& chosen,
              Result<int> (*run)(const KeyFlags&)) {
  app.add_option("--api-keys", flags->file, "the file that `fulmar serve --api-keys` reads")
      ->envname("FULMAR_API_KEYS")
      ->capture_default_str();
  app.callback([flags, run, &chosen] { chosen = [flags, run] { return exit_code(run(*flags)); }; });
}

}  // namespace

void add_keys(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<KeyFlags>();
  auto* command =
      app.add_subcommand("keys", "Keys for `fulmar serve --api-keys`, each with limits of its own");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  fulmar keys add alice --requests-per-minute 60 --tokens-per-minute 20000 --max-rows 4\n"
      "  fulmar keys add ops --admin\n"
      "  fulmar keys list\n"
      "  fulmar keys remove alice\n"
      "A running server reads the file again at SIGHUP.");
  auto* add = command->add_subcommand("add", "Make a key, print it once, keep its hash");
  add->add_option("name", flags->key.name, "who it is for")->required();
  add->add_option("--requests-per-minute", flags->key.requests_per_minute, "0: no limit")
      ->check(whole(0, kMostTokens));
  add->add_option("--tokens-per-minute", flags->key.tokens_per_minute, "of prompts and answers; 0: no limit")
      ->check(whole(0, kMostTokens));
  add->add_option("--max-rows", flags->key.max_rows, "rows under way at one time; 0: no limit")
      ->check(whole(0, kMostTokens));
  auto* route = add->add_option(
      "--route", flags->key.routes,
      "path that the key opens, '/*' at its end for all below but administration; repeatable; "
      "default: all but administration");
  add->add_flag("--admin", flags->key.admin, "opens everything and sees what is others', too")
      ->excludes(route);
  add_verb(*add, flags, chosen, add_key);
  add_verb(*command->add_subcommand("list", "Show names and limits"), flags, chosen, list_keys);
  auto* remove = command->add_subcommand("remove", "Take a key out of the file");
  remove->add_option("name", flags->key.name, "whose key")->required();
  add_verb(*remove, flags, chosen, remove_key);
}

}  // namespace fulmar
