#include "app/bench/load_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>

#include "app/bench/bench_commands.h"
#include "app/bench/engine_load.h"
#include "app/bench/local_server.h"
#include "app/bench/planned_schedule.h"
#include "app/bench/stand_in_tokenizer.h"
#include "app/core/progress_bar.h"
#include "base/read_file.h"
#include "engine/plan_limits.h"
#include "load/ideal_schedule.h"
#include "load/load_report.h"
#include "load/load_run.h"
#include "load/workload.h"
#include "net/http_client.h"
#include "net/json.h"
#include "net/json_writer.h"
#include "net/url.h"

namespace fulmar {
namespace {

constexpr uint64_t kSeed = 1;
constexpr auto kPauseAfterWarmUp = std::chrono::milliseconds(1500);
constexpr size_t kServePromptBytes = 64;

struct PromptOf {
  std::string text;
  RequestLength length;
};

Result<double> parse_rate(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  double rate = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, rate);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(rate > 0) || !std::isfinite(rate)) {
    return Error{ErrorKind::invalid,
                 fmt::format("--rate is '{}'; wanted requests per second above 0, or inf", text)};
  }
  return rate;
}

// ---- what the server says of itself
// ------------------------------------------------------------------------------

Result<std::string> ask(const LoadTarget& target, std::string_view method, std::string_view path,
                        std::string body = {}) {
  const std::string url = fmt::format("http://{}{}", host_and_port(target.host, target.port), path);
  FULMAR_ASSIGN(HttpResponse answer, fetch(method, url, target.headers, std::move(body)));
  if (answer.status == 200) return std::move(answer.body);
  return Error{ErrorKind::unavailable,
               fmt::format("{}: HTTP {}: {}", url, answer.status, answer.body.substr(0, 200))};
}

Result<int64_t> count_tokens(const LoadTarget& target, const std::string& text) {
  JsonWriter json;
  json.begin_object().member("text", text).end_object();
  FULMAR_ASSIGN(const std::string answer, ask(target, "POST", "/v1/tokens/count", json.take()));
  FULMAR_ASSIGN(const JsonValue tree, parse_json(answer));
  FULMAR_ASSIGN(const auto tokens, get_int(tree, "tokens"));
  if (!tokens) return Error{ErrorKind::unavailable, "the server does not count tokens: " + answer};
  return *tokens;
}

// The tokens that the server has fed and drawn so far; nothing if it does not tell.
struct Counters {
  double prompt = 0, generated = 0;
};
std::optional<Counters> counters_of(const LoadTarget& target) {
  const auto text = ask(target, "GET", "/metrics");
  if (!text.ok()) return std::nullopt;
  const auto value = [&](const std::string& name) {
    const size_t at = text->find("\n" + name + " ");
    return at == std::string::npos ? -1.0 : std::atof(text->c_str() + at + name.size() + 2);
  };
  const Counters counters{value("fulmar_prompt_tokens_total"), value("fulmar_generated_tokens_total")};
  if (counters.generated < 0) return std::nullopt;
  return counters;
}

// ---- the load
// ----------------------------------------------------------------------------------------------------

Result<std::vector<PromptOf>> made_prompts(const LoadTarget& target, size_t count) {
  const std::string sample = filler_text(4096, kSeed);
  FULMAR_ASSIGN(const int64_t tokens, count_tokens(target, sample));
  const double bytes_per_token =
      static_cast<double>(sample.size()) / static_cast<double>(std::max<int64_t>(tokens, 1));
  std::vector<PromptOf> prompts;
  for (const RequestLength& length : chat_lengths(count, kSeed)) {
    const auto bytes =
        static_cast<size_t>(std::llround(static_cast<double>(length.prompt) * bytes_per_token));
    prompts.push_back({filler_text(bytes, kSeed + prompts.size()), length});
  }
  return prompts;
}

Result<std::vector<PromptOf>> conversations(const LoadTarget& target, const std::string& path, size_t count) {
  FULMAR_ASSIGN(const std::string text, read_file(path, kMostFileBytes));
  FULMAR_ASSIGN(const auto pairs, parse_conversations(text));
  std::vector<PromptOf> prompts;
  for (const size_t i : shuffled(pairs.size(), kSeed)) {
    if (prompts.size() == count) break;
    FULMAR_ASSIGN(const int64_t prompt, count_tokens(target, pairs[i].first));
    FULMAR_ASSIGN(const int64_t answer, count_tokens(target, pairs[i].second));
    if (is_kept({prompt, answer})) prompts.push_back({pairs[i].first, {prompt, answer}});
  }
  if (prompts.size() == count) return prompts;
  return Error{ErrorKind::invalid, fmt::format("--dataset '{}' has {} conversations that fit; wanted {}",
                                               path, prompts.size(), count)};
}

// Returns the body that the acceptance client sends (docs/http.md, "Load test").
std::string completion_body(const PromptOf& prompt) {
  JsonWriter json;
  json.begin_object()
      .member("model", "rwkv")
      .member("prompt", prompt.text)
      .member("temperature", 0.0)
      .member("best_of", 1)
      .member("max_tokens", prompt.length.answer)
      .member("stream", true)
      .member("ignore_eos", true)
      .end_object();
  return json.take();
}

std::vector<AnswerRecord> run_with_bar(const LoadTarget& target, std::vector<LoadRequest> requests,
                                       bool quiet) {
  const auto count = static_cast<double>(requests.size());
  ProgressBar bar(quiet ? std::string() : std::string("requests"));
  return run_load(target, std::move(requests),
                  [&](size_t ended) { bar.show(static_cast<double>(ended) / count); });
}

Status warm_up(const LoadTarget& target, const PromptOf& prompt) {
  const auto records = run_load(target, {{.body = completion_body(prompt)}});
  if (!records.front().succeeded())
    return Error{ErrorKind::unavailable, "the warm-up request failed: " + records.front().fault};
  std::this_thread::sleep_for(kPauseAfterWarmUp);
  return {};
}

void print_server_count(const Counters& before, const Counters& after, int64_t asked, size_t requests) {
  const double generated = after.generated - before.generated;
  fmt::print("\nserver generated      {:.0f} tokens; asked for {}: {}\n", generated, asked,
             generated == static_cast<double>(asked) ? "exact" : "NOT EXACT");
  const auto count = static_cast<double>(requests);
  fmt::print("tokens per request    {:.1f} of prompt fed, {:.1f} of answer\n",
             (after.prompt - before.prompt) / count, static_cast<double>(asked) / count);
}

double machine_load() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

// ---- what the model's own steps take
// ---------------------------------------------------------------------------

constexpr int64_t kStepPrompt = 512;     // tokens of each prompt fed alone
constexpr double kShareForStates = 0.5;  // of the free memory: the server takes its slots afterwards

// Measures decode steps of 1, 2, 4, ... rows up to what a server of `slots` slots can
// run, and full steps of prompts.
Result<StepTimes> measure_steps(const LoadedModel& model, int64_t slots) {
  const int64_t fits = model.model->states_that_fit(kShareForStates);
  const int64_t most = std::clamp<int64_t>(std::min(fits, slots), 1, model.model->max_wanted());
  BenchOptions options{.decode = {}, .prefill = {}, .repeats = 3};
  for (int64_t rows = 1; rows < most; rows *= 2) options.decode.push_back(rows);
  options.decode.push_back(most);
  const int64_t tokens = std::min(kStepPrompt, model.model->max_rows());
  options.prefill = {{std::clamp<int64_t>(model.model->max_rows() / tokens, 1, most), tokens}};
  FULMAR_ASSIGN(const BenchReport report, bench_model(*model.model, options));
  StepTimes times{.prefill_rows = options.prefill.front().sequences * tokens};
  for (const BenchLine& line : report.lines) {
    if (line.workload == "decode") times.decode.emplace_back(line.sequences, line.seconds.median);
    if (line.workload == "prefill") times.prefill_tokens_per_second = line.tokens_per_second;
  }
  return times;
}

// A server of this process, and its model's step times, which bound it from below.
struct OwnServer {
  std::unique_ptr<LocalServer> server;
  StepTimes times;
  PlanLimits limits;
  std::string_view states;

  int64_t slots() const { return server->engine().stats().slots_total; }
};

Result<OwnServer> start_own(const LoadFlags& flags, const LoadModel& load_model) {
  FULMAR_ASSIGN(LoadedModel model, load_model());
  OwnServer own;
  own.states = name_of(model.model->state_layout().wkv_dtype);
  const int64_t most = flags.slots > 0 ? flags.slots : flags.num_prompts;
  FULMAR_ASSIGN(own.times, measure_steps(model, std::min(most, flags.num_prompts)));
  ServeEngineFlags engine;
  engine.slots = flags.slots;
  engine.max_queue = std::max(engine.max_queue, flags.num_prompts);  // the load has no cap of its own
  own.limits = plan_limits(*model.model, prefill_chunk(engine, *model.model));
  FULMAR_ASSIGN(own.server, LocalServer::start(std::move(model), engine));
  return own;
}

void print_bounds(const OwnServer& own, const std::vector<ScheduledRequest>& schedule, double seconds) {
  const auto line = [&](std::string_view what, double bound, std::string_view by) {
    fmt::print("{:<21} {:.2f} s by {}; took {:.2f} x as long\n", what, bound, by,
               seconds / std::max(bound, 1e-9));
  };
  fmt::print("server                {} slots, states {}\n", own.slots(), own.states);
  line("ideal schedule", ideal_seconds(schedule, own.times, own.slots()), "the model's own steps");
  const auto planned = planned_schedule(schedule, own.times, own.slots(), own.limits);
  line("planned schedule", planned.seconds, "the same steps as the engine plans them");
}

// Runs the load. `own` is null for a server outside this process.
Result<int> run_acceptance(const LoadFlags& flags, double rate, LoadTarget target, const OwnServer* own) {
  const char* key = std::getenv("OPENAI_API_KEY");
  target.headers.set("Authorization", std::string("Bearer ") + (key ? key : "None"));
  const auto count = static_cast<size_t>(flags.num_prompts);
  FULMAR_ASSIGN(const auto prompts, flags.dataset.empty() ? made_prompts(target, count)
                                                          : conversations(target, flags.dataset, count));
  FULMAR_TRY(warm_up(target, prompts.front()));

  std::vector<LoadRequest> requests;
  std::vector<int64_t> lengths;
  std::vector<ScheduledRequest> schedule;
  const std::vector<double> arrivals = arrival_times(count, rate, kSeed);
  for (size_t i = 0; i < count; i++) {
    requests.push_back({arrivals[i], completion_body(prompts[i])});
    lengths.push_back(prompts[i].length.answer);
    schedule.push_back({arrivals[i], prompts[i].length.prompt, prompts[i].length.answer});
  }
  const double machine = machine_load();
  const auto before = counters_of(target);
  const auto records = run_with_bar(target, std::move(requests), flags.quiet);
  const auto after = counters_of(target);
  const LoadFigures figures = load_figures(records, lengths);
  fmt::print(
      "load      {}, {} requests, {} per second, {}\nmachine   load average {:.2f} before the run\n\n{}",
      flags.client, count, flags.rate, flags.dataset.empty() ? "made-up prompts" : flags.dataset, machine,
      load_table(figures));
  const int64_t asked = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  if (before && after) print_server_count(*before, *after, asked, count);
  if (own != nullptr) print_bounds(*own, schedule, figures.seconds);
  FULMAR_TRY(write_report(flags.json, load_json(figures)));
  const bool all_well = figures.successes == count && figures.exact == count;
  return all_well ? 0 : 1;
}

// ---- streams that decode together
// ----------------------------------------------------------------------------------

struct SteadyFigures {
  SteadyRate steady;
  LoadFigures figures;
};

SteadyFigures seen_by(std::span<const AnswerRecord> records, std::span<const int64_t> lengths) {
  return {steady_rate(records, lengths), load_figures(records, lengths)};
}

// Returns tokens per second of steps alone, for decoding all streams or feeding prompts of their length.
double rate_of(const BenchReport& alone, std::string_view workload) {
  const auto line = std::find_if(alone.lines.begin(), alone.lines.end(),
                                 [&](const BenchLine& each) { return each.workload == workload; });
  return line->tokens_per_second;
}

// Returns full steps of prompts of `tokens` tokens.
PrefillShape full_step(const Model& model, int64_t streams, int64_t tokens) {
  return {std::clamp<int64_t>(model.max_rows() / tokens, 1, streams), tokens};
}

// Returns the rate while all streams ran, compared with the model's own rate.
std::string steady_text(const SteadyRate& rate, double model) {
  if (rate.seconds == 0) return "the first stream ended before the last began: ask for more --tokens";
  return fmt::format("{:>10.1f} tok/s  {:.1f} % of the steps, over {:.2f} s", rate.tokens_per_second,
                     rate.tokens_per_second / model * 100, rate.seconds);
}

void print_serve(const StreamFlags& flags, const BenchReport& alone, int64_t prompt_tokens, int64_t slots,
                 const SteadyFigures& engine, const SteadyFigures& server) {
  const double model = rate_of(alone, "decode");
  fmt::print(
      "model     {} on {}, states {}, {} slots\nstreams   {} of {} tokens; {} answered, {} of exact length\n",
      alone.model, alone.device, alone.state_dtype, slots, flags.streams, flags.tokens,
      server.figures.successes, server.figures.exact);
  for (const std::string& fault : server.figures.faults) fmt::print("  failed: {}\n", fault);
  fmt::print("machine   load average {:.2f} before the run\n\n", alone.load_average);
  fmt::print("model steps alone     {:>10.1f} tok/s\n", model);
  fmt::print("engine without HTTP   {}\n", steady_text(engine.steady, model));
  fmt::print("server and clients    {}\n", steady_text(server.steady, model));
  fmt::print("  with prompts and ends {:.1f} tok/s, {:.2f} s\n",
             static_cast<double>(server.figures.answer_tokens) / server.figures.seconds,
             server.figures.seconds);
  const Summary& gap = server.figures.itl;
  fmt::print("inter-token           {:>10.2f} ms median, {:.2f} ms p99: {:.2f} x\n", gap.median, gap.p99,
             gap.median > 0 ? gap.p99 / gap.median : 0);
  const Summary& first = server.figures.ttft;
  const double prompts = static_cast<double>(prompt_tokens) / rate_of(alone, "prefill") * 1e3;
  fmt::print(
      "first token           {:>10.2f} ms median, {:.2f} ms p99: {:.2f} x the prompts alone, {:.2f} ms\n",
      first.median, first.p99, first.p99 / prompts, prompts);
}

std::string serve_json(const BenchReport& alone, const SteadyFigures& engine, const SteadyFigures& server) {
  JsonWriter json;
  json.begin_object()
      .member("model", alone.model)
      .member("device", alone.device)
      .member("state_dtype", alone.state_dtype)
      .member("load_average", alone.load_average)
      .member("model_tokens_per_second", rate_of(alone, "decode"))
      .member("model_prefill_tokens_per_second", rate_of(alone, "prefill"))
      .member("engine_tokens_per_second", engine.steady.tokens_per_second)
      .member("server_tokens_per_second", server.steady.tokens_per_second)
      .member("steady_seconds", server.steady.seconds);
  return json.key("clients").raw(load_json(server.figures)).end_object().take();
}

// Returns a body that samples by the route's defaults, as for clients that send no parameters.
std::string stream_body(const std::string& prompt, int64_t tokens) {
  JsonWriter json;
  json.begin_object()
      .member("prompt", prompt)
      .member("max_tokens", tokens)
      .member("stream", true)
      .member("ignore_eos", true)
      .end_object();
  return json.take();
}

}  // namespace

Result<int> bench_load(const LoadFlags& flags, const LoadModel& load_model) {
  FULMAR_ASSIGN(const double rate, parse_rate(flags.rate));
  std::optional<OwnServer> own;
  if (flags.url.empty()) {
    FULMAR_ASSIGN(own, start_own(flags, load_model));
  }
  FULMAR_ASSIGN(LoadTarget target, load_target(own ? own->server->url() : flags.url));
  return run_acceptance(flags, rate, std::move(target), own ? &*own : nullptr);
}

Result<int> bench_serve(const StreamFlags& flags, LoadedModel model, BenchOptions options) {
  const std::string name = model.path.filename().string();
  const auto count = static_cast<size_t>(flags.streams);
  const std::vector<int64_t> lengths(count, flags.tokens);
  std::vector<std::string> prompts;
  for (size_t i = 0; i < count; i++) prompts.push_back(filler_text(kServePromptBytes, kSeed + i));
  if (!model.tokenizer) model.tokenizer = std::make_unique<StandInTokenizer>(model.model->config().vocab);
  int64_t prompt_tokens = 0;
  for (const std::string& prompt : prompts)
    prompt_tokens += static_cast<int64_t>(model.tokenizer->encode(prompt).size());
  options.prefill.assign(1, full_step(*model.model, flags.streams, prompt_tokens / flags.streams));
  FULMAR_ASSIGN(BenchReport alone, bench_model(*model.model, options));
  alone.model = name;

  ServeEngineFlags engine_flags;
  engine_flags.slots = flags.slots;
  engine_flags.max_queue = std::max(engine_flags.max_queue, flags.streams);
  FULMAR_ASSIGN(const auto own, LocalServer::start(std::move(model), engine_flags));
  FULMAR_ASSIGN(const auto engine_records,
                run_on_engine(own->engine(), own->tokenizer(), prompts, flags.tokens));
  own->engine().clear_prefixes();  // the server computes every prompt itself
  FULMAR_ASSIGN(const LoadTarget target, load_target(own->url()));
  std::vector<LoadRequest> requests;
  for (const std::string& prompt : prompts) requests.push_back({.body = stream_body(prompt, flags.tokens)});
  const auto records = run_with_bar(target, std::move(requests), flags.quiet);

  const SteadyFigures engine = seen_by(engine_records, lengths), server = seen_by(records, lengths);
  print_serve(flags, alone, prompt_tokens, own->engine().stats().slots_total, engine, server);
  FULMAR_TRY(write_report(flags.json, serve_json(alone, engine, server)));
  return server.figures.exact == count ? 0 : 1;
}

}  // namespace fulmar
