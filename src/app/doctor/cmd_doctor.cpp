// fulmar doctor: finds what would keep this machine from serving a model.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "app/core/commands.h"
#include "app/core/exit_code.h"
#include "app/core/option_checks.h"
#include "app/doctor/doctor_checks.h"
#include "app/doctor/doctor_facts.h"

namespace fulmar {
namespace {

int run_doctor(const DoctorFlags& flags) {
  const std::vector<Finding> findings = examine(look_around(flags));
  for (const Finding& finding : findings) fmt::print("{}\n", line_of(finding));
  const auto bad = std::count_if(findings.begin(), findings.end(),
                                 [](const Finding& finding) { return finding.health == Health::bad; });
  if (bad > 0) fmt::print("{} of {} stand in the way of serving\n", bad, findings.size());
  return bad == 0 ? 0 : exit_code_of(ErrorKind::resource);
}

}  // namespace

void add_doctor(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Look at CPU, GPU, driver, port, disk, model and vocabulary, and say what to do");
  command->add_option("-m,--model", flags->model, "the model that would be served; default: the demo model");
  command->add_option("--host", flags->host, "address to listen on")->capture_default_str();
  command->add_option("--port", flags->port, "port to listen on")
      ->check(whole(0, kMostPort))
      ->capture_default_str();
  command->add_option("--state-db-path", flags->session_db, "where sessions would be kept")
      ->capture_default_str();
  command->footer(
      "A line each: ok, note (it works, but could be better), or bad (serving would fail).\n"
      "Exit code: 0 without a bad line, else 4. Nothing is changed, and nothing is asked of the network.\n"
      "Example:\n  fulmar doctor --model rwkv7-g1-1.5b --port 8080");
  command->callback([flags, &chosen] { chosen = [flags] { return run_doctor(*flags); }; });
}

}  // namespace fulmar
