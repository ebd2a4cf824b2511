// fulmar bench: how fast a model runs on a device, against what the device could do.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "app/bench/bench_commands.h"
#include "app/bench/bench_model.h"
#include "app/core/option_checks.h"
#include "base/write_file.h"

namespace fulmar {

void add_timing_flags(CLI::App& app, int& repeats, double& seconds) {
  app.add_option("--repeats", repeats, "timed runs of each line")
      ->check(whole(1, 1000))
      ->capture_default_str();
  app.add_option("--seconds", seconds, "begin no further run after so long")
      ->check(within(0.001, 1e6))
      ->capture_default_str();
}

void add_decode_flag(CLI::App& app, std::string& decode) {
  app.add_option("--decode", decode, "numbers of sequences to decode together")
      ->check(may_be_empty())
      ->capture_default_str();
}

void add_report_flag(CLI::App& app, std::string& json) {
  app.add_option("--json", json, "also write the result to this file");
}

Result<std::vector<int64_t>> some_counts(const std::string& decode, std::string_view command) {
  FULMAR_ASSIGN(auto counts, parse_counts(decode));
  if (!counts.empty()) return counts;
  return Error{ErrorKind::invalid,
               fmt::format("bench {} measures --decode, which is empty; wanted a number at least", command)};
}

Status write_report(const std::string& json, const std::string& text) {
  return json.empty() ? Status() : write_file(json, text + "\n");
}

Status check_report(const std::string& json) { return json.empty() ? Status() : check_writable(json); }

void add_bench(CLI::App& app, Command& chosen) {
  CLI::App* bench = app.add_subcommand("bench", "measure speed against the machine's own limits");
  bench->require_subcommand(1);
  add_bench_steps(*bench, chosen);
  add_bench_kernels(*bench, chosen);
  add_bench_serve(*bench, chosen);
  add_bench_load(*bench, chosen);
  add_bench_drafts(*bench, chosen);
  add_bench_structured(*bench, chosen);
  bench->footer(
      "Examples:\n"
      "  fulmar bench steps --synthetic rwkv7-0.4b --threads 2\n"
      "  fulmar bench steps --model my.safetensors --decode 1,32 --prefill 1x512,8x512 --json result.json\n"
      "  fulmar bench serve --streams 320 --tokens 256\n"
      "  fulmar bench load --rate 4 --num-prompts 1200 --url http://127.0.0.1:8000");
}

}  // namespace fulmar
