#include "app/eval/eval_suite.h"

#include <fmt/core.h>

#include <algorithm>
#include <future>
#include <limits>
#include <map>

#include "base/write_file.h"
#include "net/json.h"
#include "net/json_writer.h"

namespace fulmar {

namespace {

constexpr int64_t kLongestAnswer = 400;  // tokens

// Collects the rows of one request and signals when the last has ended.
class SuiteListener final : public Listener {
 public:
  explicit SuiteListener(size_t rows) : results_(rows), remaining_(rows) {
    for (SuiteResult& result : results_) result.gap = std::numeric_limits<float>::infinity();
  }

  void deliver(std::vector<Event> events) override {
    for (Event& event : events) {
      SuiteResult& result = results_[static_cast<size_t>(event.index)];
      result.output += event.text;
      for (const TokenRecord& record : event.tokens) {
        if (record.top.size() >= 2)
          result.gap = std::min(result.gap, record.top[0].logprob - record.top[1].logprob);
      }
      if (event.kind != Event::Kind::finished) continue;
      result.usage = event.usage;
      if (event.error && !error_) error_ = event.error;
      if (--remaining_ == 0) done_.set_value();
    }
  }

  Result<std::vector<SuiteResult>> wait() {
    done_.get_future().wait();
    if (error_) return *error_;
    return std::move(results_);
  }

 private:
  std::vector<SuiteResult> results_;
  size_t remaining_;
  std::optional<Error> error_;
  std::promise<void> done_;
};

}  // namespace

Result<std::vector<SuiteCase>> parse_suite(std::string_view content, std::string_view name) {
  std::vector<SuiteCase> cases;
  int64_t number = 0;
  while (!content.empty()) {
    const size_t end = std::min(content.find('\n'), content.size());
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    number++;
    if (line.find_first_not_of(" \r") == std::string_view::npos) continue;
    FULMAR_ASSIGN(const JsonValue object, parse_json(line));
    SuiteCase one;
    for (const auto& [key, target] :
         {std::pair{"skill", &one.skill}, {"prompt", &one.prompt}, {"answer", &one.answer}}) {
      const JsonValue* value = object.find(key);
      if (value == nullptr || !value->is_string()) {
        return Error{ErrorKind::corrupt,
                     fmt::format("'{}' line {}: wanted a string \"{}\"", name, number, key)};
      }
      *target = value->as_string();
    }
    cases.push_back(std::move(one));
  }
  if (cases.empty()) return Error{ErrorKind::corrupt, fmt::format("'{}' has no cases", name)};
  return cases;
}

Result<std::vector<SuiteResult>> run_suite(Engine& engine, const Tokenizer& tokenizer,
                                           const std::vector<SuiteCase>& cases) {
  Request request{.listener = std::make_shared<SuiteListener>(cases.size()), .endpoint = "eval", .model = {}};
  for (size_t i = 0; i < cases.size(); i++) {
    Ask ask{
        .request_id = "suite", .index = static_cast<int32_t>(i), .prompt = tokenizer.encode(cases[i].prompt)};
    ask.sampling.temperature = 0;
    ask.sampling.top_logprobs = 2;
    ask.max_tokens = kLongestAnswer;
    if (const auto eos = tokenizer.eos()) ask.stop.ids.push_back(*eos);
    request.rows.push_back(std::move(ask));
  }
  const auto collector = std::static_pointer_cast<SuiteListener>(request.listener);
  FULMAR_TRY(engine.submit(std::move(request)));
  return collector->wait();
}

double print_suite(const std::vector<SuiteCase>& cases, const std::vector<SuiteResult>& results) {
  struct SuiteRow {
    int64_t cases = 0, right = 0;
    float gap = std::numeric_limits<float>::infinity();
    int64_t tokens = 0, accepted = 0, rejected = 0;
  };
  std::map<std::string, SuiteRow> rows;
  bool drafted = false;
  for (size_t i = 0; i < cases.size(); i++) {
    SuiteRow& row = rows[cases[i].skill];
    const bool right = results[i].output == cases[i].answer;
    row.cases++;
    row.right += right ? 1 : 0;
    if (right) row.gap = std::min(row.gap, results[i].gap);
    const Usage& usage = results[i].usage;
    row.tokens += usage.completion_tokens;
    row.accepted += usage.accepted_draft_tokens;
    row.rejected += usage.rejected_draft_tokens;
    drafted |= usage.accepted_draft_tokens + usage.rejected_draft_tokens > 0;
  }
  fmt::print("{:<16} {:>6} {:>6} {:>9} {:>14}{}\n", "skill", "cases", "right", "accuracy", "smallest gap",
             drafted ? "  drafts accepted  tokens a step" : "");
  double worst = 100;
  for (const auto& [skill, row] : rows) {
    const double percent = 100.0 * static_cast<double>(row.right) / static_cast<double>(row.cases);
    worst = std::min(worst, percent);
    fmt::print("{:<16} {:>6} {:>6} {:>7.2f} % {:>14.3f}", skill, row.cases, row.right, percent, row.gap);
    if (drafted) {
      const auto drafts = static_cast<double>(std::max<int64_t>(1, row.accepted + row.rejected));
      const auto steps = static_cast<double>(std::max<int64_t>(1, row.tokens - row.accepted));
      fmt::print(" {:>14.1f} % {:>14.2f}", 100.0 * static_cast<double>(row.accepted) / drafts,
                 static_cast<double>(row.tokens) / steps);
    }
    fmt::print("\n");
  }
  return worst;
}

Status write_suite(const std::string& path, const std::vector<SuiteCase>& cases,
                   const std::vector<SuiteResult>& results) {
  std::string lines;
  for (size_t i = 0; i < cases.size(); i++) {
    JsonWriter json;
    json.begin_object()
        .member("skill", cases[i].skill)
        .member("prompt", cases[i].prompt)
        .member("answer", cases[i].answer)
        .member("output", results[i].output)
        .member("gap", results[i].gap)
        .end_object();
    lines += json.take() + '\n';
  }
  return write_file(path, lines);
}

}  // namespace fulmar
