// The command line: one table of subcommands, each in a file of its own.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>

#include "app/commands.h"
#include "app/version_text.h"
#include "base/exit_codes.h"
#include "base/heap.h"
#include "base/log.h"
#include "ops/device.h"

namespace {

// What stands in the place of a command and is none, with those that there are; empty: it is one, or nothing
// stands there.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return {};
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->check_name(argv[1])) return {};
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return std::string("fulmar: there is no command '") + argv[1] + "'; wanted one of " + names + "\n";
}

}  // namespace

int main(int argc, char** argv) {
  using namespace fulmar;
  bound_kept_memory();
  std::signal(SIGPIPE, SIG_IGN);

  CLI::App app{"Fulmar: RWKV inference engine and server"};
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.footer(
      "Each command has its own --help with examples. Exit codes: 0 fine, 1 internal, 2 usage, 3 file, 4 "
      "resources, 5 the device failed, 6 answered turns could not be stored.");
  std::string log_level;
  app.add_option("--log", log_level, "debug, info, warn, error or off (default info; also FULMAR_LOG)");

  Command chosen;
  for (const auto add :
       {add_serve, add_control, add_fleet, add_chat, add_generate, add_tokenize, add_tokenizer, add_inspect,
        add_pull, add_models, add_convert, add_quantize, add_bench, add_eval, add_keys, add_doctor}) {
    add(app, chosen);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (const std::string text = unknown_command(app, argc, argv); !text.empty()) {
      std::fputs(text.c_str(), stderr);
      return 2;
    }
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  set_up_log(log_level);
  try {
    return chosen();
  } catch (const DeviceFailure& failure) {
    std::fprintf(stderr, "fulmar: %s\n", failure.what());
    return kDeviceErrorExit;
  }
}
