#include "app/bench/bench_report.h"

#include <fmt/core.h>

#include "net/json_writer.h"

namespace fulmar {
namespace {

std::string share_text(double share) { return share > 0 ? fmt::format("{:.0f}%", share * 100) : ""; }

// Returns the fraction of the roofline that a line reached; 0 if the roofline is unknown.
double share_of_roofline(const BenchLine& line, const Ceilings& ceilings) {
  return roofline_seconds(line.work, ceilings) / line.seconds.median;
}
double roofline_rate(const BenchLine& line, const Ceilings& ceilings) {
  const double share = share_of_roofline(line, ceilings);
  return share > 0 ? line.tokens_per_second / share : 0;
}

// Returns seconds as text in one unit, so that columns can be compared.
std::string milliseconds(const Spread& seconds) {
  return fmt::format("{:.3f} ({:.3f}..{:.3f})", seconds.median * 1e3, seconds.least * 1e3,
                     seconds.most * 1e3);
}

std::string shape_text(const BenchLine& line) {
  const std::string beside = line.decoding > 0 ? fmt::format("{}+", line.decoding) : "";
  return fmt::format("{}{}x{}", beside, line.sequences, line.tokens);
}

std::string line_text(const BenchLine& line, const Ceilings& ceilings) {
  const double roofline = roofline_rate(line, ceilings);
  return fmt::format("{:<8} {:>8} {:>5} {:>5} {:>4} {:>30} {:>10.1f} {:>8.1f} {:>8.2f} {:>9} {:>5}\n",
                     line.workload, shape_text(line), name_of(line.state), line.defer, line.runs,
                     milliseconds(line.seconds), line.tokens_per_second, line.gbs(), line.gflops() / 1e3,
                     roofline > 0 ? fmt::format("{:.0f}", roofline) : "",
                     share_text(share_of_roofline(line, ceilings)));
}

std::string island_text(const IslandLine& line) {
  const double seconds = line.seconds.median;
  return fmt::format("{:<14} {:>8} {:>10.2f} {:>10.1f} {:>8.2f}\n", line.island,
                     fmt::format("{}x{}", line.sequences, line.tokens), seconds * 1e6,
                     line.bytes / seconds / 1e9, line.flop / seconds / 1e12);
}

void write_spread(JsonWriter& json, const Spread& seconds) {
  json.member("seconds_median", seconds.median)
      .member("seconds_least", seconds.least)
      .member("seconds_most", seconds.most);
}

void write_line(JsonWriter& json, const BenchLine& line, const Ceilings& ceilings) {
  json.begin_object()
      .member("workload", line.workload)
      .member("sequences", line.sequences)
      .member("tokens", line.tokens)
      .member("decoding", line.decoding)
      .member("state_dtype", name_of(line.state))
      .member("defer", line.defer)
      .member("runs", line.runs);
  write_spread(json, line.seconds);
  json.member("tokens_per_second", line.tokens_per_second)
      .member("gb_per_second", line.gbs())
      .member("gflop_per_second", line.gflops())
      .member("roofline_tokens_per_second", roofline_rate(line, ceilings))
      .member("share_of_roofline", share_of_roofline(line, ceilings))
      .end_object();
}

void write_island(JsonWriter& json, const IslandLine& line) {
  json.begin_object()
      .member("island", line.island)
      .member("sequences", line.sequences)
      .member("tokens", line.tokens);
  write_spread(json, line.seconds);
  json.member("gb_per_second", line.bytes / line.seconds.median / 1e9)
      .member("gflop_per_second", line.flop / line.seconds.median / 1e9)
      .end_object();
}

}  // namespace

std::string bench_table(const BenchReport& report) {
  std::string text =
      fmt::format("model     {}\ndevice    {}\nstates    {}, {:.2f} MB each\n", report.model, report.device,
                  report.state_dtype, static_cast<double>(report.state_bytes) / 1e6);
  text += fmt::format("weights   {:.1f} MB read by a decode step, ready after {:.2f} s\n",
                      static_cast<double>(report.weight_bytes) / 1e6, report.load_seconds);
  if (report.ceilings.read_gbs > 0) {
    text +=
        fmt::format("ceilings  read {:.1f} GB/s, copy {:.1f} GB/s, multiply-add {:.2f} TFLOP/s (this run)\n",
                    report.ceilings.read_gbs, report.ceilings.copy_gbs, report.ceilings.gflops / 1e3);
  }
  text += fmt::format("\n{:<8} {:>8} {:>5} {:>5} {:>4} {:>30} {:>10} {:>8} {:>8} {:>9} {:>5}\n", "", "shape",
                      "state", "defer", "runs", "ms median (least..most)", "tok/s", "GB/s", "TFLOP/s",
                      "roofline", "of it");
  for (const BenchLine& line : report.lines) text += line_text(line, report.ceilings);
  if (!report.islands.empty()) {
    text +=
        fmt::format("\n{:<14} {:>8} {:>10} {:>10} {:>8}\n", "one island", "shape", "us", "GB/s", "TFLOP/s");
    for (const IslandLine& line : report.islands) text += island_text(line);
  }
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
      .member("load_seconds", report.load_seconds)
      .member("ceiling_read_gb_per_second", report.ceilings.read_gbs)
      .member("ceiling_copy_gb_per_second", report.ceilings.copy_gbs)
      .member("ceiling_gflop_per_second", report.ceilings.gflops)
      .member("tokenizer_mb_per_second", report.tokenizer_mbs)
      .member("peak_rss_bytes", report.peak_rss)
      .member("load_average", report.load_average);
  json.key("lines").begin_array();
  for (const BenchLine& line : report.lines) write_line(json, line, report.ceilings);
  json.end_array();
  json.key("islands").begin_array();
  for (const IslandLine& line : report.islands) write_island(json, line);
  json.end_array().end_object();
  return json.take();
}

}  // namespace fulmar
