#include "app/eval/schema_eval.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstring>
#include <ctime>
#include <map>

#include "app/eval/schema_suite.h"
#include "base/write_file.h"

namespace fulmar {
namespace {

// A judge that waits for anything but the processor is stopped, too, after
// this many times its CPU time.
constexpr int kWallFactor = 12;

using Judge = std::function<SchemaVerdict(const SchemaCase&)>;

// A process that judges cases in order and writes a line of JSON for each.
class JudgeProcess {
 public:
  static Result<JudgeProcess> start(const std::vector<SchemaCase>& cases, size_t first, const Judge& judge) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) return Error{ErrorKind::io, std::strerror(errno)};
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) return Error{ErrorKind::io, fmt::format("no process: {}", std::strerror(errno))};
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(ends[0]);
      write_verdicts(cases, first, judge, ends[1]);
      _exit(0);
    }
    close(ends[1]);
    return JudgeProcess(child, ends[0]);
  }

  // Returns the next verdict. If none comes, `missing` says why, and the process has ended.
  std::optional<SchemaVerdict> next(SchemaVerdict& missing, int seconds) {
    const double began = cpu_seconds();
    for (int wall = 0;; ++wall) {
      if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
        auto verdict = verdict_of(std::string_view(buffer_).substr(0, end));
        buffer_.erase(0, end + 1);
        if (verdict) return verdict;
      }
      pollfd ready{.fd = output_, .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, 1000) > 0) {
        if (!read_more()) return end(missing, SchemaVerdict::Status::crash);
        --wall;  // counts seconds without a byte
      } else if (cpu_seconds() - began > seconds || wall > kWallFactor * seconds) {
        missing.reason = fmt::format("not done in {} s", seconds);
        return end(missing, SchemaVerdict::Status::timeout);
      }
    }
  }

  // Ends a process that has written all of its verdicts.
  void finish() {
    close(output_);
    waitpid(child_, nullptr, 0);
  }

 private:
  JudgeProcess(pid_t child, int output) : child_(child), output_(output) {}

  static void write_verdicts(const std::vector<SchemaCase>& cases, size_t first, const Judge& judge,
                             int output) {
    for (size_t i = first; i < cases.size(); ++i) {
      const std::string line = json_of(judge(cases[i]), true) + '\n';
      for (size_t at = 0; at < line.size();) {
        const ssize_t wrote = write(output, line.data() + at, line.size() - at);
        if (wrote <= 0) return;
        at += static_cast<size_t>(wrote);
      }
    }
  }

  double cpu_seconds() const {
    clockid_t clock{};
    timespec now{};
    if (clock_getcpuclockid(child_, &clock) != 0 || clock_gettime(clock, &now) != 0) return 0;
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  }

  bool read_more() {
    std::array<char, 1 << 16> chunk;
    const ssize_t got = read(output_, chunk.data(), chunk.size());
    if (got > 0) buffer_.append(chunk.data(), static_cast<size_t>(got));
    return got > 0;
  }

  std::optional<SchemaVerdict> end(SchemaVerdict& missing, SchemaVerdict::Status status) {
    if (status == SchemaVerdict::Status::timeout) kill(child_, SIGKILL);
    close(output_);
    int code = 0;
    waitpid(child_, &code, 0);
    missing.status = status;
    if (status == SchemaVerdict::Status::crash) {
      missing.reason = WIFSIGNALED(code) ? fmt::format("killed by signal {}", WTERMSIG(code))
                                         : fmt::format("exit code {}", WEXITSTATUS(code));
    }
    return std::nullopt;
  }

  pid_t child_;
  int output_;
  std::string buffer_;
};

// Returns --each's text about an instance that went wrong.
std::string fault_of(const SchemaTest& test, const SchemaVerdict::Test& result) {
  if (!test.valid) {
    return fmt::format("invalid, taken {}: {}", result.compact.whole ? "compact" : "spaced", test.compact);
  }
  const bool compact = !result.compact.whole;
  const auto& [bytes, whole] = compact ? result.compact : result.spaced;
  const std::string& text = compact ? test.compact : test.spaced;
  const size_t from = bytes > 40 ? bytes - 40 : 0;
  return fmt::format("valid, not taken {} at byte {} of {}: {} >>> {}", compact ? "compact" : "spaced", bytes,
                     text.size(), text.substr(from, bytes - from),
                     text.substr(std::min(bytes, text.size()), 40));
}

void print_faults(const SchemaCase& one, const SchemaVerdict& verdict) {
  if (!verdict.compiled()) {
    fmt::print("{} {}: {}\n", one.id, name_of(verdict.status), verdict.reason);
    return;
  }
  for (size_t i = 0; i < verdict.tests.size(); ++i) {
    if (verdict.tests[i].right()) continue;
    fmt::print("{} tests[{}] {}\n", one.id, i, fault_of(one.tests[i], verdict.tests[i]));
  }
}

struct Counts {
  size_t schemas = 0, compiled = 0, passed = 0, invalid_taken = 0, crashes = 0, timeouts = 0;

  void add(const SchemaVerdict& verdict) {
    ++schemas;
    compiled += verdict.compiled() ? 1 : 0;
    passed += verdict.status == SchemaVerdict::Status::pass ? 1 : 0;
    invalid_taken += verdict.invalid_taken();
    crashes += verdict.status == SchemaVerdict::Status::crash ? 1 : 0;
    timeouts += verdict.status == SchemaVerdict::Status::timeout ? 1 : 0;
  }
};

void print_counts(std::string_view name, const Counts& counts) {
  fmt::print("{:<24} {:>7} {:>8} {:>6} {:>14} {:>8} {:>10}\n", name, counts.schemas, counts.compiled,
             counts.passed, counts.invalid_taken, counts.crashes, counts.timeouts);
}

void print_times(std::string_view name, std::vector<double> times) {
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  double sum = 0;
  for (const double time : times) sum += time;
  const auto part = [&](double share) {
    return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))];
  };
  fmt::print("{:<24} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f}\n", name, sum / static_cast<double>(times.size()),
             part(0.5), part(0.99), times.back());
}

void print_tables(const std::vector<SchemaVerdict>& verdicts) {
  std::vector<double> compiles, firsts, masks;
  std::map<std::string, Counts> parts;
  Counts all;
  for (const SchemaVerdict& verdict : verdicts) {
    parts[part_of(verdict.id)].add(verdict);
    all.add(verdict);
    if (!verdict.compiled()) continue;
    compiles.push_back(verdict.compile);
    firsts.push_back(verdict.first_mask);
    masks.insert(masks.end(), verdict.masks.begin(), verdict.masks.end());
  }
  fmt::print("{:<24} {:>9} {:>9} {:>9} {:>9}\n", "us of CPU time", "average", "median", "p99", "largest");
  print_times("compile", std::move(compiles));
  print_times("first mask", std::move(firsts));
  print_times("masks", std::move(masks));
  fmt::print("\n{:<24} {:>7} {:>8} {:>6} {:>14} {:>8} {:>10}\n", "", "schemas", "compile", "pass",
             "invalid taken", "crashes", "time-outs");
  for (const auto& [name, counts] : parts) print_counts(name, counts);
  print_counts("all", all);
}

}  // namespace

Result<std::vector<SchemaVerdict>> judge_apart(const std::vector<SchemaCase>& cases, const Judge& judge,
                                               int seconds) {
  std::vector<SchemaVerdict> verdicts;
  while (verdicts.size() < cases.size()) {
    FULMAR_ASSIGN(JudgeProcess process, JudgeProcess::start(cases, verdicts.size(), judge));
    bool going = true;
    while (going && verdicts.size() < cases.size()) {
      SchemaVerdict missing{.id = cases[verdicts.size()].id};
      auto verdict = process.next(missing, seconds);
      going = verdict.has_value();
      verdicts.push_back(going ? std::move(*verdict) : std::move(missing));
    }
    if (going) process.finish();
  }
  return verdicts;
}

Status eval_schemas(const SchemaEvalFlags& flags, const Tokenizer& tokenizer) {
  FULMAR_ASSIGN(auto cases, read_schema_suite(flags.suite));
  if (flags.sample > 0) cases = sample_of(std::move(cases), flags.sample);
  FULMAR_ASSIGN(TokenTree made, TokenTree::make(tokenizer));
  const auto tree = std::make_shared<const TokenTree>(std::move(made));
  FULMAR_ASSIGN(const auto verdicts, judge_apart(cases, [&](const SchemaCase& one) {
                  return judge_schema(one, tokenizer, tree);
                }));
  for (size_t i = 0; flags.each && i < cases.size(); ++i) print_faults(cases[i], verdicts[i]);
  if (!flags.json.empty()) {
    std::string lines;
    for (const SchemaVerdict& verdict : verdicts) lines += json_of(verdict, false) + '\n';
    FULMAR_TRY(write_file(flags.json, lines));
  }
  print_tables(verdicts);
  return {};
}

}  // namespace fulmar
