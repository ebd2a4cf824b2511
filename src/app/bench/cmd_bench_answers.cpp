// fulmar bench drafts and bench structured: methods that make single answers quicker.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "app/bench/bench_commands.h"
#include "app/bench/bench_drafts.h"
#include "app/bench/bench_structured.h"
#include "app/bench/bench_subject.h"
#include "app/core/exit_code.h"
#include "app/core/option_checks.h"
#include "text/locate_vocabulary.h"

namespace fulmar {

namespace {

struct DraftFlags {
  BenchSubject subject;
  std::string decode = "1,4,16", json;
  std::string drafter = "ngram";  // or model
  std::string draft_model, draft_synthetic;
  DraftBenchOptions options;
};

struct StructuredFlags {
  BenchSubject subject;
  std::string decode = "1,4,16", json;
  StructuredBenchOptions options;
};

Status check_drafter(const DraftFlags& flags) {
  const bool by_model = flags.drafter == "model";
  if (spreads(flags.subject.model.devices)) {
    return Error{ErrorKind::invalid, "bench drafts measures one device; --devices names several"};
  }
  if (by_model == (flags.draft_model.empty() && flags.draft_synthetic.empty())) {
    return Error{ErrorKind::invalid,
                 fmt::format("--drafter is {}; wanted {}", flags.drafter,
                             by_model ? "--draft-model FILE or --draft-synthetic NAME with it"
                                      : "model beside --draft-model or --draft-synthetic")};
  }
  return {};
}

// Returns the model that drafts: on the target's device, loaded for the same sequences.
BenchSubject draft_subject(const DraftFlags& flags) {
  BenchSubject draft = flags.subject;
  draft.model.model = flags.draft_model;
  draft.synthetic = flags.draft_synthetic;
  return draft;
}

Result<int> measure_drafts(DraftFlags flags) {
  FULMAR_ASSIGN(flags.options.sequences, some_counts(flags.decode, "drafts"));
  FULMAR_TRY(check_drafter(flags));
  FULMAR_TRY(check_report(flags.json));
  const auto& counts = flags.options.sequences;
  const int64_t widest = *std::max_element(counts.begin(), counts.end());
  const BenchRows rows{.widest = widest, .wanted = widest * (1 + flags.options.most)};
  FULMAR_ASSIGN(const LoadedModel loaded, load_subject(flags.subject, rows));
  const BenchedModel target{*loaded.devices.front(), *loaded.model};
  std::optional<LoadedModel> draft;
  std::optional<BenchedModel> draft_model;
  if (flags.drafter == "model") {
    FULMAR_ASSIGN(draft, load_subject(draft_subject(flags), rows));
    draft_model.emplace(BenchedModel{*draft->devices.front(), *draft->model});
  }
  FULMAR_ASSIGN(const auto lines, bench_drafts(target, draft_model ? &*draft_model : nullptr, flags.options));
  fmt::print("{}{}, {}\n{}", loaded.path.filename().string(),
             draft ? " drafted for by " + draft->path.filename().string() : "", loaded.model->device(),
             drafts_table(lines, flags.options));
  FULMAR_TRY(write_report(flags.json, drafts_json(lines, flags.options)));
  return 0;
}

// Measures structured answers. A synthetic model has the World vocabulary, or another one that is named.
Result<int> measure_structured(StructuredFlags flags) {
  FULMAR_ASSIGN(flags.options.sequences, some_counts(flags.decode, "structured"));
  FULMAR_TRY(check_report(flags.json));
  const auto& counts = flags.options.sequences;
  const int64_t widest = *std::max_element(counts.begin(), counts.end());
  FULMAR_ASSIGN(LoadedModel loaded, load_subject(flags.subject, {.widest = widest, .wanted = widest}));
  if (loaded.tokenizer == nullptr) {
    FULMAR_ASSIGN(loaded.tokenizer, choose_tokenizer({.explicit_vocabulary = flags.subject.model.vocab,
                                                      .model_rows = loaded.model->config().vocab}));
  }
  FULMAR_ASSIGN(const auto lines, bench_structured(*loaded.model, *loaded.tokenizer, flags.options));
  fmt::print("{}, {}\n{}", loaded.path.filename().string(), loaded.model->device(), structured_table(lines));
  FULMAR_TRY(write_report(flags.json, structured_json(lines)));
  return 0;
}

}  // namespace

void add_bench_drafts(CLI::App& bench, Command& chosen) {
  auto flags = std::make_shared<DraftFlags>();
  CLI::App* command = bench.add_subcommand(
      "drafts", "what speculative decoding brings, of which each token is right with --acceptance");
  flags->subject.model.needs_vocab = false;
  add_subject_flags(*command, flags->subject);
  add_one_state_flags(*command, flags->subject);
  add_decode_flag(*command, flags->decode);
  command
      ->add_option("--drafter", flags->drafter,
                   "ngram, whose drafts cost nothing, or model: each draft is a step of the draft model")
      ->check(CLI::IsMember({"ngram", "model"}))
      ->capture_default_str();
  auto* file = command->add_option("--draft-model", flags->draft_model, "drafts, with --drafter model");
  command
      ->add_option("--draft-synthetic", flags->draft_synthetic, "the same, made in memory as --synthetic is")
      ->excludes(file);
  command->add_option("--acceptance", flags->options.acceptance, "how often a drafted token is right")
      ->check(within(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--speculate-most", flags->options.most, "most drafted tokens of a sequence and step")
      ->check(whole(1, kMostDeferred - 1))
      ->capture_default_str();
  add_timing_flags(*command, flags->options.repeats, flags->options.seconds);
  add_report_flag(*command, flags->json);
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(measure_drafts(*flags)); }; });
}

void add_bench_structured(CLI::App& bench, Command& chosen) {
  auto flags = std::make_shared<StructuredFlags>();
  CLI::App* command = bench.add_subcommand(
      "structured", "what fast-forward brings to calls of a tool, for each --decode at once");
  add_subject_flags(*command, flags->subject);
  add_one_state_flags(*command, flags->subject);
  add_decode_flag(*command, flags->decode);
  add_timing_flags(*command, flags->options.repeats, flags->options.seconds);
  add_report_flag(*command, flags->json);
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(measure_structured(*flags)); }; });
}

}  // namespace fulmar
