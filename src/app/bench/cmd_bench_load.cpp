// fulmar bench load and bench serve: a server with its clients.
#include <CLI/CLI.hpp>
#include <memory>

#include "app/bench/bench_commands.h"
#include "app/bench/bench_subject.h"
#include "app/bench/load_bench.h"
#include "app/core/exit_code.h"
#include "app/core/option_checks.h"
#include "app/served/served_engine.h"

namespace fulmar {

namespace {

struct LoadCommand {
  BenchSubject subject;
  LoadFlags load;
};

struct ServeCommand {
  BenchSubject subject;
  StreamFlags streams;
  BenchOptions steps;  // how the steps alone are timed
};

// Loads a model like a server with `slots` slots; 0: as many as it chooses.
Result<LoadedModel> load_served(const BenchSubject& subject, int64_t slots) {
  const int64_t wanted = wanted_rows(slots, subject.model.devices);
  return load_subject(subject, {.widest = wanted, .wanted = wanted, .served = true});
}

Result<int> measure_load(LoadCommand command) {
  FULMAR_TRY(check_report(command.load.json));
  command.load.quiet = command.subject.model.quiet;
  return bench_load(command.load, [&] { return load_served(command.subject, command.load.slots); });
}

Result<int> measure_serve(ServeCommand command) {
  StreamFlags& streams = command.streams;
  FULMAR_TRY(check_report(streams.json));
  streams.quiet = command.subject.model.quiet;
  if (streams.slots == 0) streams.slots = streams.streams;
  command.steps.decode = {streams.streams};
  command.steps.zeros = command.subject.zeros;
  FULMAR_ASSIGN(LoadedModel model, load_served(command.subject, streams.slots));
  return bench_serve(streams, std::move(model), command.steps);
}

void add_slots_flag(CLI::App& app, int64_t& slots) {
  app.add_option("--slots", slots, "sequences that our own server runs at once; 0 suits the load")
      ->check(whole(0, kMostRows))
      ->capture_default_str();
}

}  // namespace

void add_bench_load(CLI::App& bench, Command& chosen) {
  auto flags = std::make_shared<LoadCommand>();
  CLI::App* command = bench.add_subcommand("load", "the acceptance load of a client, sent to a server");
  LoadFlags& load = flags->load;
  command->add_option("--client", load.client, "whose requests are sent")
      ->check(CLI::IsMember({"conrwkv"}))
      ->capture_default_str();
  command->add_option("--rate", load.rate, "requests per second, or inf for all at once")
      ->capture_default_str();
  command->add_option("--num-prompts", load.num_prompts)->check(whole(1, 1'000'000))->capture_default_str();
  command->add_option("--url", load.url, "a server that runs, http://HOST:PORT; default: one of our own");
  command->add_option("--dataset", load.dataset, "conversations, a ShareGPT file; default: made-up prompts");
  add_slots_flag(*command, load.slots);
  add_subject_flags(*command, flags->subject);
  add_one_state_flags(*command, flags->subject);
  add_report_flag(*command, load.json);
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(measure_load(*flags)); }; });
}

void add_bench_serve(CLI::App& bench, Command& chosen) {
  auto flags = std::make_shared<ServeCommand>();
  CLI::App* command =
      bench.add_subcommand("serve", "streams that decode together: steps alone, engine, server");
  StreamFlags& streams = flags->streams;
  command->add_option("--streams", streams.streams)->check(whole(1, 65536))->capture_default_str();
  command->add_option("--tokens", streams.tokens, "of each stream")
      ->check(whole(2, 65536))
      ->capture_default_str();
  add_slots_flag(*command, streams.slots);
  add_subject_flags(*command, flags->subject);
  add_one_state_flags(*command, flags->subject);
  add_timing_flags(*command, flags->steps.repeats, flags->steps.seconds);
  add_report_flag(*command, streams.json);
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(measure_serve(*flags)); }; });
}

}  // namespace fulmar
