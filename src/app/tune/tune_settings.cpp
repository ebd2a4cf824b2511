#include "app/tune/tune_settings.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "app/core/model_source.h"
#include "app/core/option_checks.h"

namespace fulmar {
namespace {

constexpr int64_t kMostRank = 1024, kMostContext = 1 << 20, kMostBatch = 1 << 16,
                  kMostSteps = int64_t{1} << 30;
constexpr double kMostRate = 1000;

// What a method is trained with unless flags say otherwise.
struct MethodDefaults {
  const char* name;
  TuneMethod method;
  double rate, last_rate;
};
// A tuned state must reach the size of states in running text, and Adam moves a number by about the rate a
// step.
constexpr std::array<MethodDefaults, 3> kMethods = {{{"state", TuneMethod::state, 1, 0.01},
                                                     {"lora", TuneMethod::lora, 2e-4, 2e-5},
                                                     {"miss", TuneMethod::miss, 1e-3, 1e-4}}};

Error no_effect(std::string_view flag, std::string_view beside) {
  return {ErrorKind::invalid, fmt::format("{} has no effect with {}", flag, beside)};
}

}  // namespace

void add_tune_flags(CLI::App& command, TuneFlags& flags) {
  command.add_option("-m,--model", flags.model,
                     "file, folder or name of an installed model; default: the demo model");
  command.add_option("--vocab", flags.vocab, "vocabulary file; default: the one that suits the model");
  add_template_flag(command, flags.chat_template);
  command.add_option("--data", flags.data, "file of lines: text, prompt and completion, or messages")
      ->required();
  command.add_option("-o,--output,--out", flags.output, "folder for the run; must be new or empty");
  command.add_option("--resume", flags.resume, "the folder of a run, to take up from its last checkpoint");
  command.add_option("--method", flags.method, "what is trained: state, lora or miss")
      ->check(CLI::IsMember({"state", "lora", "miss"}).description(""))
      ->capture_default_str();
  command.add_option("--mask", flags.mask, "which tokens count: answers, or none is masked: none")
      ->check(CLI::IsMember({"answers", "none"}).description(""))
      ->capture_default_str();
  command.add_option("--rank", flags.rank, "of adapters (default 16)")->check(whole(1, kMostRank));
  command.add_option("--alpha", flags.alpha, "of LoRA: scale times rank (default twice the rank)")
      ->check(within(1e-6, 1e6));
  command.add_option("--ctx,--context", flags.context, "most tokens of a sample; longer ones are cut")
      ->check(whole(1, kMostContext))
      ->capture_default_str();
  command.add_option("--batch", flags.batch, "samples of a step")
      ->check(whole(1, kMostBatch))
      ->capture_default_str();
  command.add_option("--epochs", flags.epochs, "times that each sample is seen (default 1)")
      ->check(whole(1, kMostSteps));
  command.add_option("--steps", flags.steps, "steps instead of epochs")->check(whole(1, kMostSteps));
  command
      .add_option("--lr", flags.rate,
                  "learning rate after the warm-up (default: state 1, lora 2e-4, miss 1e-3)")
      ->check(within(1e-12, kMostRate));
  command
      .add_option("--lr-final", flags.last_rate, "and at the end (default: state 1/100 of it, others 1/10)")
      ->check(within(1e-12, kMostRate));
  command.add_option("--warmup", flags.warmup, "steps of rising rate")
      ->check(whole(0, kMostSteps))
      ->capture_default_str();
  command.add_option("--schedule", flags.schedule, "how the rate falls: geometric, cosine or constant")
      ->check(CLI::IsMember({"geometric", "cosine", "constant"}).description(""))
      ->capture_default_str();
  command.add_option("--clip", flags.clip, "most that the gradients' norm may be; 0: any")
      ->check(within(0, 1e12))
      ->capture_default_str();
  command
      .add_option("--save-every", flags.save_every,
                  "steps between checkpoints (default: at an interruption only)")
      ->check(whole(1, kMostSteps));
  command.add_option("--seed", flags.seed, "of the samples' order and of first values")
      ->check(whole(0, UINT64_MAX))
      ->capture_default_str();
  command.add_flag("-q,--quiet", flags.quiet, "no line for each step");
  command.footer(
      "Writes tune.jsonl (a line for each step), checkpoint-N folders, and at the end state-final.pth or\n"
      "adapter-final.pth, in 32 bits on one core: meant for small models.\n\n"
      "Examples:\n  fulmar tune -m rwkv7-small.pth --data pirate.jsonl --output pirate\n"
      "  fulmar tune --data task.jsonl --output task --method lora --rank 8 --steps 500\n"
      "  fulmar tune --data task.jsonl --resume task --method lora --rank 8 --steps 500");
}

Result<TuneSettings> settings_of(const TuneFlags& flags) {
  if (flags.output.empty() == flags.resume.empty()) {
    return Error{ErrorKind::invalid, flags.output.empty()
                                         ? "neither --output nor --resume; wanted one of them"
                                         : "both --output and --resume; wanted one of them"};
  }
  const MethodDefaults* method = std::find_if(
      kMethods.begin(), kMethods.end(), [&](const MethodDefaults& one) { return flags.method == one.name; });
  if (method->method == TuneMethod::state && flags.rank) return no_effect("--rank", "--method state");
  if (method->method != TuneMethod::lora && flags.alpha)
    return no_effect("--alpha", "--method " + flags.method);
  if (flags.steps > 0 && flags.epochs) return no_effect("--epochs", "--steps");
  if (flags.schedule == "constant" && flags.last_rate) return no_effect("--lr-final", "--schedule constant");
  TuneSettings settings{
      .method = method->method, .batch = flags.batch, .steps = flags.steps, .seed = flags.seed};
  settings.rank = flags.rank.value_or(settings.rank);
  settings.alpha = flags.alpha.value_or(2 * static_cast<double>(settings.rank));
  settings.clip = flags.clip;
  settings.rate.schedule = flags.schedule == "geometric" ? Schedule::geometric
                           : flags.schedule == "cosine"  ? Schedule::cosine
                                                         : Schedule::constant;
  settings.rate.first = flags.rate.value_or(method->rate);
  settings.rate.last = flags.last_rate.value_or(settings.rate.first * method->last_rate / method->rate);
  settings.rate.warmup = flags.warmup;
  return settings;
}

}  // namespace fulmar
