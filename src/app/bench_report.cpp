#include "app/bench_report.h"

#include <fmt/core.h>

#include "net/json_writer.h"

namespace fulmar {
namespace {

// "12.3 (45%)", or without the share where there is no ceiling, or nothing where there is no rate.
std::string rate_text(double rate, double ceiling) {
  if (rate <= 0) return "";
  if (ceiling <= 0) return fmt::format("{:.1f}", rate);
  return fmt::format("{:.1f} ({:.0f}%)", rate, rate / ceiling * 100);
}

std::string line_text(const BenchLine& line, const Ceilings& ceilings) {
  const std::string shape = fmt::format("{}x{}", line.sequences, line.tokens);
  const std::string spread = fmt::format("{:.2f} ({:.2f}..{:.2f})", line.seconds.median * 1e3,
                                         line.seconds.least * 1e3, line.seconds.most * 1e3);
  return fmt::format("{:<8} {:>8} {:>4} {:>28} {:>10.1f} {:>15} {:>16}\n", line.workload, shape, line.runs,
                     spread, line.tokens_per_second, rate_text(line.gbs, ceilings.read_gbs),
                     rate_text(line.gflops, ceilings.gflops));
}

void write_line(JsonWriter& json, const BenchLine& line) {
  json.begin_object()
      .member("workload", line.workload)
      .member("sequences", line.sequences)
      .member("tokens", line.tokens)
      .member("runs", line.runs)
      .member("seconds_median", line.seconds.median)
      .member("seconds_least", line.seconds.least)
      .member("seconds_most", line.seconds.most)
      .member("tokens_per_second", line.tokens_per_second)
      .member("gb_per_second", line.gbs)
      .member("gflop_per_second", line.gflops)
      .end_object();
}

}  // namespace

std::string bench_table(const BenchReport& report) {
  std::string text =
      fmt::format("model     {}\ndevice    {}\nstates    {}, {:.2f} MB each\n", report.model, report.device,
                  report.state_dtype, static_cast<double>(report.state_bytes) / 1e6);
  text += fmt::format("weights   {:.1f} MB read by a decode step\n",
                      static_cast<double>(report.weight_bytes) / 1e6);
  if (report.ceilings.read_gbs > 0) {
    text += fmt::format("ceilings  read {:.1f} GB/s, multiply-add {:.0f} GFLOP/s (measured in this run)\n",
                        report.ceilings.read_gbs, report.ceilings.gflops);
  }
  text += fmt::format("\n{:<8} {:>8} {:>4} {:>28} {:>10} {:>15} {:>16}\n", "", "shape", "runs",
                      "ms median (least..most)", "tok/s", "GB/s", "GFLOP/s");
  for (const BenchLine& line : report.lines) text += line_text(line, report.ceilings);
  text += "\n";
  if (report.tokenizer_mbs > 0)
    text += fmt::format("tokenizer {:.1f} MB/s on one core\n", report.tokenizer_mbs);
  text += fmt::format("memory    {:.0f} MB at most (resident)\nload      {:.2f} before the run\n",
                      static_cast<double>(report.peak_rss) / 1e6, report.load_average);
  return text;
}

std::string bench_json(const BenchReport& report) {
  JsonWriter json;
  json.begin_object()
      .member("model", report.model)
      .member("device", report.device)
      .member("state_dtype", report.state_dtype)
      .member("state_bytes", report.state_bytes)
      .member("weight_bytes", report.weight_bytes)
      .member("ceiling_read_gb_per_second", report.ceilings.read_gbs)
      .member("ceiling_gflop_per_second", report.ceilings.gflops)
      .member("tokenizer_mb_per_second", report.tokenizer_mbs)
      .member("peak_rss_bytes", report.peak_rss)
      .member("load_average", report.load_average);
  json.key("lines").begin_array();
  for (const BenchLine& line : report.lines) write_line(json, line);
  json.end_array().end_object();
  return json.take();
}

}  // namespace fulmar
