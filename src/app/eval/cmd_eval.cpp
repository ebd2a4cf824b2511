// fulmar eval: how good a model is on a suite of cases, a text (perplexity) or last words (LAMBADA style).
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "app/core/commands.h"
#include "app/core/draft_source.h"
#include "app/core/exit_code.h"
#include "app/core/option_checks.h"
#include "app/eval/compare_models.h"
#include "app/eval/eval_suite.h"
#include "app/eval/schema_eval.h"
#include "app/local/local_run.h"
#include "base/read_file.h"
#include "base/write_file.h"
#include "net/json.h"
#include "text/locate_vocabulary.h"

namespace fulmar {

namespace {

struct EvalFlags {
  ModelFlags model;
  std::string suite, text, lambada, json, against;
  double floor = 0;
  int64_t slots = 32;
  std::string speculate = "off", draft_model;
  SchemaEvalFlags schemas;
};

constexpr int64_t kMostDrafts = 7;  // of a case and step

// Returns the log-probabilities of all tokens of a text but the first, which has none.
Result<std::vector<TokenRecord>> score(Engine& engine, std::vector<int32_t> tokens) {
  Ask ask{.request_id = "score", .prompt = std::move(tokens), .score_prompt = true};
  ask.sampling.top_logprobs = 1;
  FULMAR_ASSIGN(Event last, run_row(engine, std::move(ask), [](const std::string&) {}));
  if (!last.prompt_scores.empty()) last.prompt_scores.erase(last.prompt_scores.begin());
  return std::move(last.prompt_scores);
}

std::vector<int32_t> with_start(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> tokens;
  if (const auto eos = tokenizer.eos()) tokens.push_back(*eos);  // marks the start of a document
  tokenizer.encode(text, tokens);
  return tokens;
}

Status perplexity(Engine& engine, const Tokenizer& tokenizer, const std::string& path) {
  FULMAR_ASSIGN(const std::string text, read_file(path, kMostFileBytes));
  FULMAR_ASSIGN(const auto scores, score(engine, with_start(tokenizer, text)));
  if (scores.empty()) return Error{ErrorKind::invalid, fmt::format("'{}' has too few tokens to score", path)};
  double sum = 0;
  for (const TokenRecord& record : scores) sum -= record.logprob;
  const auto count = static_cast<double>(scores.size());
  fmt::print("tokens      {}\nperplexity  {:.4f} per token\nbits        {:.4f} per byte\n", scores.size(),
             std::exp(sum / count), sum / std::log(2.0) / static_cast<double>(text.size()));
  return {};
}

// Returns the texts of a jsonl file, lines {"text": "... last"}.
Result<std::vector<std::string>> lambada_texts(const std::string& path) {
  FULMAR_ASSIGN(const std::string content, read_file(path, kMostFileBytes));
  std::vector<std::string> texts;
  size_t number = 0;
  for (size_t at = 0; at < content.size();) {
    const size_t end = std::min(content.find('\n', at), content.size());
    const std::string_view line = std::string_view(content).substr(at, end - at);
    at = end + 1;
    number++;
    if (line.find_first_not_of(" \r") == std::string_view::npos) continue;
    FULMAR_ASSIGN(const JsonValue object, parse_json(line));
    const JsonValue* text = object.find("text");
    if (text == nullptr || !text->is_string()) {
      return Error{ErrorKind::corrupt,
                   fmt::format("'{}' line {}: wanted an object with a string \"text\"", path, number)};
    }
    texts.push_back(text->as_string());
  }
  return texts;
}

Status last_words(Engine& engine, const Tokenizer& tokenizer, const std::string& path) {
  FULMAR_ASSIGN(const auto texts, lambada_texts(path));
  int64_t right = 0, counted = 0;
  double sum = 0;
  for (const std::string& text : texts) {
    const size_t space = text.find_last_of(' ');
    if (space == std::string::npos || space == 0) continue;
    std::vector<int32_t> tokens = with_start(tokenizer, std::string_view(text).substr(0, space));
    const size_t before = tokens.size();
    tokenizer.encode(std::string_view(text).substr(space), tokens);
    FULMAR_ASSIGN(const auto scores, score(engine, tokens));
    bool all = true;
    for (size_t i = before - 1; i < scores.size(); i++) {
      sum -= scores[i].logprob;
      all = all && !scores[i].top.empty() && scores[i].top.front().token == scores[i].token;
    }
    right += all ? 1 : 0;
    counted++;
  }
  if (counted == 0) return Error{ErrorKind::invalid, fmt::format("'{}' has no text with a last word", path)};
  const auto count = static_cast<double>(counted);
  fmt::print("texts       {}\naccuracy    {:.2f} %\nperplexity  {:.4f} per last word\n", counted,
             100.0 * static_cast<double>(right) / count, std::exp(sum / count));
  return {};
}

std::filesystem::path suite_path(const EvalFlags& flags, const LoadedModel& loaded) {
  return flags.suite == "demo" ? loaded.path.parent_path() / "demo-suite.jsonl"
                               : std::filesystem::path(flags.suite);
}

// Returns a case's tokens as its model read them, compared from the answer on.
ComparedText compared(const Tokenizer& tokenizer, const SuiteCase& one) {
  ComparedText text{tokenizer.encode(one.prompt)};
  text.first = std::max<size_t>(text.tokens.size(), 1) - 1;
  tokenizer.encode(one.answer, text.tokens);
  return text;
}

// Measures the distance to the model of --against, on the text and on the suite's answers.
Status distance(const EvalFlags& flags, LoadedModel& loaded) {
  std::vector<ComparedText> texts;
  if (!flags.text.empty()) {
    FULMAR_ASSIGN(const std::string text, read_file(flags.text, kMostFileBytes));
    texts.push_back({with_start(*loaded.tokenizer, text)});
  }
  if (!flags.suite.empty()) {
    const auto path = suite_path(flags, loaded);
    FULMAR_ASSIGN(const std::string content, read_file(path, kMostFileBytes));
    FULMAR_ASSIGN(const auto cases, parse_suite(content, path.string()));
    for (const SuiteCase& one : cases) texts.push_back(compared(*loaded.tokenizer, one));
  }
  ModelFlags reference_flags = flags.model;
  reference_flags.model = flags.against;
  reference_flags.quantize.clear();
  FULMAR_ASSIGN(LoadedModel reference, load_model(reference_flags));
  FULMAR_ASSIGN(const TextsDistance distance, compare_models(reference, loaded, texts));
  fmt::print(
      "against     {} at {} positions\nrelative    {:.5f} rms of the logits' difference\n"
      "divergence  {:.6f} nats\nsame top    {:.2f} %\n",
      reference.path.filename().string(), distance.all.positions, distance.all.relative_rms,
      distance.all.divergence, 100 * distance.all.same_top);
  if (flags.suite.empty()) return {};
  fmt::print("prompts     {:.5f} relative, {:.6f} nats, {:.2f} % same top, directly behind {} prompts\n",
             distance.first.relative_rms, distance.first.divergence, 100 * distance.first.same_top,
             distance.first.positions);
  return {};
}

Status check_drafts(const EvalFlags& flags) {
  const bool by_model = flags.speculate == "model" || flags.speculate == "both";
  if (by_model != flags.draft_model.empty()) return {};
  return Error{ErrorKind::invalid,
               fmt::format("--drafts is {}; wanted {} --draft-model FILE", flags.speculate,
                           by_model ? "with it" : "model or both beside")};
}

// Judges a suite of schemas, which needs a vocabulary only: the World one, unless another is named.
Result<int> eval_schemas(EvalFlags flags) {
  flags.schemas.json = flags.json;
  FULMAR_ASSIGN(const auto tokenizer,
                choose_tokenizer({.explicit_vocabulary = flags.model.vocab, .model_rows = kWorldRows}));
  FULMAR_TRY(eval_schemas(flags.schemas, *tokenizer));
  return 0;
}

// Fails if --json has no cases to write, or cannot be written.
Status check_outputs(const EvalFlags& flags) {
  if (flags.json.empty()) return {};
  if (flags.suite.empty() && flags.schemas.suite.empty()) {
    return Error{ErrorKind::invalid, fmt::format("--json is '{}'; wanted --suite or --schemas with it, whose "
                                                 "cases it writes",
                                                 flags.json)};
  }
  return check_writable(flags.json);
}

Result<int> eval(const EvalFlags& flags) {
  FULMAR_TRY(check_outputs(flags));
  if (!flags.schemas.suite.empty()) return eval_schemas(flags);
  if (flags.suite.empty() && flags.text.empty() && flags.lambada.empty()) {
    return Error{ErrorKind::invalid, "nothing to do; give --suite, --text, --lambada or --schemas"};
  }
  if (!flags.against.empty() && flags.suite.empty() && flags.text.empty()) {
    return Error{ErrorKind::invalid, "--against compares on --text or --suite; give one"};
  }
  FULMAR_TRY(check_drafts(flags));
  ModelFlags model = flags.model;
  EngineOptions options{
      .slots = flags.slots, .device_sessions = 0, .prefix_slots = 0, .prefixes = {.host_bytes = 0}};
  if (flags.speculate != "off") {
    options.speculation = {.ngrams = flags.speculate != "model", .most = kMostDrafts, .always = true};
    model.devices.revocable = kMostDrafts + 1;
    model.devices.revocable_on_gpu = true;
    model.max_wanted = std::max(model.max_wanted, flags.slots * (1 + kMostDrafts));
  }
  FULMAR_ASSIGN(LoadedModel loaded, load_model(model));
  std::optional<LoadedModel> draft;
  if (!flags.draft_model.empty()) {
    FULMAR_ASSIGN(draft, load_draft_model(flags.model, flags.draft_model, loaded));
    options.speculation.draft_model = draft->model.get();
    options.speculation.draft_ops = draft->devices.front().get();
  }
  if (!flags.against.empty()) FULMAR_TRY(distance(flags, loaded));
  if (loaded.fixed_cuts) options.prompt_piece = options.prefill_chunk;
  FULMAR_ASSIGN(auto engine, Engine::start(*loaded.model, *loaded.tokenizer, options, nullptr));
  if (!flags.text.empty()) FULMAR_TRY(perplexity(*engine, *loaded.tokenizer, flags.text));
  if (!flags.lambada.empty()) FULMAR_TRY(last_words(*engine, *loaded.tokenizer, flags.lambada));
  if (flags.suite.empty()) return 0;

  const auto path = suite_path(flags, loaded);
  FULMAR_ASSIGN(const std::string content, read_file(path, kMostFileBytes));
  FULMAR_ASSIGN(const auto cases, parse_suite(content, path.string()));
  FULMAR_ASSIGN(const auto results, run_suite(*engine, *loaded.tokenizer, cases));
  const double worst = print_suite(cases, results);
  if (!flags.json.empty()) FULMAR_TRY(write_suite(flags.json, cases, results));
  if (worst < flags.floor) {
    fmt::print(stderr, "fulmar: the weakest skill reaches {:.2f} %; wanted {:.2f} %\n", worst, flags.floor);
    return 1;
  }
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<EvalFlags>();
  auto* command = app.add_subcommand("eval", "Measure accuracy or perplexity");
  add_model_flags(*command, flags->model);
  show_option(*command, "--pretend");
  command->add_option("--suite", flags->suite, "'demo', or a jsonl file of {skill, prompt, answer}");
  command->add_option("--text", flags->text, "a text file: perplexity");
  command->add_option("--lambada", flags->lambada, "a jsonl file of {text}: is the last word predicted?");
  command->add_option(
      "--against", flags->against,
      "another model file: how far the logits on the text, or on the answers of the suite, are "
      "from its");
  command->add_option("--floor", flags->floor, "exit 1 when a skill of the suite stays below this percentage")
      ->check(within(0.0, 100.0));
  command->add_option("--json", flags->json,
                      "write a line of JSON a case: its answer and logit gap; with --schemas its status and "
                      "what was taken of each instance");
  command->add_option("--schemas", flags->schemas.suite,
                      "a suite of JSON Schemas, .jsonl of {id, schema, tests} or the JSON-Schema-Test-Suite "
                      "as .tar, either as .xz: which compile, take valid instances and refuse invalid ones, "
                      "in what time; needs a vocabulary and no model");
  command->add_flag("--each", flags->schemas.each, "print what went wrong with each schema of --schemas");
  command
      ->add_option("--sample", flags->schemas.sample,
                   "only so many schemas of --schemas, evenly spread and always the same; 0: all")
      ->check(whole(0, kMostRows));
  command->add_option("--slots", flags->slots, "sequences that run at once")
      ->check(whole(1, 4096))
      ->capture_default_str();
  command
      ->add_option(
          "--drafts", flags->speculate,
          "draft wherever that can be done, whether it pays or not: ngram from what was said before, model "
          "from --draft-model, both from the one that is right more often; the suite's table then says how "
          "much of it was right")
      ->check(CLI::IsMember({"off", "ngram", "model", "both"}))
      ->capture_default_str();
  command->add_option("--draft-model", flags->draft_model, "small model with the same vocabulary");
  command->footer(
      "Examples:\n"
      "  fulmar eval --suite demo\n"
      "  fulmar eval -m rwkv7-g1-1.5b-q4_k.gguf --against rwkv7-g1-1.5b.pth --text book.txt\n"
      "  fulmar eval -m rwkv7-g1-1.5b.pth --text book.txt\n"
      "  fulmar eval -m rwkv7-g1-1.5b.pth --lambada lambada_test.jsonl\n"
      "  fulmar eval --schemas suite.jsonl.xz --vocab rwkv_vocab_v20230424.txt --json verdicts.jsonl");
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(eval(*flags)); }; });
}

}  // namespace fulmar
