#include "app/command_line.h"

#include <CLI/CLI.hpp>

#include "app/core/option_checks.h"
#include "app/core/version_text.h"

namespace fulmar {

void set_up_parser(CLI::App& app, std::string& log_level, Command& chosen) {
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.footer(
      "Each command has its own --help with examples. Exit codes: 0 fine, 1 internal, 2 usage, 3 file, 4 "
      "resources, 5 the device failed, 6 answered turns could not be stored.");
  app.add_option("--log", log_level, "debug, info, warn, error or off (default info)")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}).description(""))
      ->envname("FULMAR_LOG");
  for (const auto add : {add_serve, add_control, add_fleet, add_chat, add_generate, add_tokenize,
                         add_tokenizer, add_inspect, add_pull, add_models, add_convert, add_quantize,
                         add_merge, add_tune, add_bench, add_eval, add_keys, add_doctor}) {
    add(app, chosen);
  }
  refuse_empty_values(app);
}

}  // namespace fulmar
