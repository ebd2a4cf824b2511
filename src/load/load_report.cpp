#include "load/load_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr size_t kShownFaults = 5;
constexpr double kMilli = 1e3;

// Returns the most requests that were under way at one time.
size_t most_at_once(std::span<const AnswerRecord> records) {
  std::vector<std::pair<double, int>> changes;  // at equal times, ends (-1) come first
  for (const AnswerRecord& record : records) {
    changes.emplace_back(record.sent_at, 1);
    changes.emplace_back(record.ended_at, -1);
  }
  std::sort(changes.begin(), changes.end());
  int now = 0, most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, now += change);
  return static_cast<size_t>(most);
}

std::string line(std::string_view name, const Summary& summary) {
  return fmt::format("{:<6} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}\n", name, summary.mean, summary.median,
                     summary.p99, summary.deviation);
}

void write_summary(JsonWriter& json, std::string_view name, const Summary& summary) {
  json.key(name)
      .begin_object()
      .member("count", summary.count)
      .member("mean", summary.mean)
      .member("median", summary.median)
      .member("p99", summary.p99)
      .member("deviation", summary.deviation)
      .end_object();
}

}  // namespace

LoadFigures load_figures(std::span<const AnswerRecord> records, std::span<const int64_t> lengths) {
  LoadFigures figures{.requests = records.size()};
  std::vector<double> e2e, ttft, itl, tpot;
  double first_sent = std::numeric_limits<double>::max(), last_sent = 0, last_end = 0;
  for (size_t i = 0; i < records.size(); i++) {
    const AnswerRecord& record = records[i];
    first_sent = std::min(first_sent, record.sent_at);
    last_sent = std::max(last_sent, record.sent_at);
    last_end = std::max(last_end, record.ended_at);
    if (!record.succeeded() || record.text_at.empty()) {
      const std::string why = !record.fault.empty() ? record.fault : "no text at all";
      if (figures.faults.size() < kShownFaults)
        figures.faults.push_back(fmt::format("request {}: {}", i, why));
      continue;
    }
    figures.successes++;
    if (record.finish_reason == "length") figures.exact++;
    figures.answer_tokens += lengths[i];
    const double whole = record.ended_at - record.sent_at, first = record.text_at.front() - record.sent_at;
    e2e.push_back(whole * kMilli);
    ttft.push_back(first * kMilli);
    if (lengths[i] > 1) tpot.push_back((whole - first) * kMilli / static_cast<double>(lengths[i] - 1));
    for (size_t k = 1; k < record.text_at.size(); k++) {
      itl.push_back((record.text_at[k] - record.text_at[k - 1]) * kMilli);
    }
  }
  figures.e2e = summarize(std::move(e2e));
  figures.ttft = summarize(std::move(ttft));
  figures.itl = summarize(std::move(itl));
  figures.tpot = summarize(std::move(tpot));
  figures.most_in_flight = most_at_once(records);
  if (!records.empty()) {
    figures.seconds = last_end - first_sent;
    figures.drain_seconds = std::max(0.0, last_end - last_sent);
  }
  return figures;
}

std::string load_table(const LoadFigures& figures) {
  const double seconds = std::max(figures.seconds, 1e-9);
  std::string text = fmt::format("successful requests   {} of {}\nexact lengths         {} of {}\n",
                                 figures.successes, figures.requests, figures.exact, figures.successes);
  for (const std::string& fault : figures.faults) text += "  failed: " + fault + "\n";
  text += fmt::format(
      "duration              {:.2f} s, of which {:.2f} s after the last arrival\n"
      "requests in flight    {} at most\n"
      "throughput            {:.2f} requests/s, {:.1f} answer tokens/s\n\n",
      figures.seconds, figures.drain_seconds, figures.most_in_flight,
      static_cast<double>(figures.successes) / seconds, static_cast<double>(figures.answer_tokens) / seconds);
  text += fmt::format("{:<6} {:>10} {:>10} {:>10} {:>10}\n", "ms", "mean", "median", "p99", "deviation");
  text += line("E2E", figures.e2e) + line("TTFT", figures.ttft) + line("ITL", figures.itl) +
          line("TPOT", figures.tpot);
  return text;
}

std::string load_json(const LoadFigures& figures) {
  JsonWriter json;
  json.begin_object()
      .member("requests", figures.requests)
      .member("successes", figures.successes)
      .member("exact_lengths", figures.exact)
      .member("seconds", figures.seconds)
      .member("drain_seconds", figures.drain_seconds)
      .member("most_in_flight", figures.most_in_flight)
      .member("answer_tokens", figures.answer_tokens);
  write_summary(json, "e2e_ms", figures.e2e);
  write_summary(json, "ttft_ms", figures.ttft);
  write_summary(json, "itl_ms", figures.itl);
  write_summary(json, "tpot_ms", figures.tpot);
  json.key("faults").begin_array();
  for (const std::string& fault : figures.faults) json.value(fault);
  return json.end_array().end_object().take();
}

SteadyRate steady_rate(std::span<const AnswerRecord> records, std::span<const int64_t> lengths) {
  double begin = 0, end = std::numeric_limits<double>::max();
  for (const AnswerRecord& record : records) {
    if (record.text_at.empty()) return {};
    begin = std::max(begin, record.text_at.front());
    end = std::min(end, record.text_at.back());
  }
  if (records.empty() || end <= begin) return {};
  double tokens = 0;
  for (size_t i = 0; i < records.size(); i++) {
    const std::vector<double>& times = records[i].text_at;
    const auto after = std::upper_bound(times.begin(), times.end(), begin);
    const auto until = std::upper_bound(times.begin(), times.end(), end);
    const double per_event = static_cast<double>(lengths[i]) / static_cast<double>(times.size());
    tokens += per_event * static_cast<double>(until - after);
  }
  return {end - begin, tokens / (end - begin)};
}

}  // namespace fulmar
