// The commands of `fulmar bench`, and the options that several of them take.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/core/commands.h"
#include "base/result.h"

namespace fulmar {

// Adds a command with its own options to the parser; the one that is asked for sets what main runs.
void add_bench_steps(CLI::App& bench, Command& chosen);
void add_bench_kernels(CLI::App& bench, Command& chosen);
void add_bench_drafts(CLI::App& bench, Command& chosen);
void add_bench_structured(CLI::App& bench, Command& chosen);
void add_bench_load(CLI::App& bench, Command& chosen);
void add_bench_serve(CLI::App& bench, Command& chosen);

void add_timing_flags(CLI::App& app, int& repeats, double& seconds);
void add_decode_flag(CLI::App& app, std::string& decode);
void add_report_flag(CLI::App& app, std::string& json);

// Returns the numbers of --decode; fails if there are none, for a command that measures nothing else.
Result<std::vector<int64_t>> some_counts(const std::string& decode, std::string_view command);
// Fails if a report cannot be written to the file that --json names; call before measuring.
Status check_report(const std::string& json);
// Writes a report to the file that --json names; does nothing if it names none.
Status write_report(const std::string& json, const std::string& text);

}  // namespace fulmar
