// fulmar convert and fulmar quantize: a model's or an adapter's file into another format, a model into fewer
// bits.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <optional>

#include "adapters/source.h"
#include "app/convert/adapter_options.h"
#include "app/convert/calibration.h"
#include "app/convert/convert_adapter.h"
#include "app/convert/model_writer.h"
#include "app/core/commands.h"
#include "app/core/exit_code.h"
#include "app/core/model_source.h"
#include "app/core/progress_bar.h"
#include "files/checkpoint.h"
#include "files/identify.h"
#include "files/quantised.h"
#include "files/strategy.h"

namespace fulmar {

namespace {

namespace fs = std::filesystem;

struct ConvertFlags : OutputFlags {
  std::string in, type, calibrate;
  std::vector<std::string> keep;
  ConvertAdapterFlags adapter;
};

// Fails for an option that would have no effect on a file of this kind.
Status refuse(bool given, std::string_view option, const ConvertFlags& flags, bool adapter) {
  if (!given) return {};
  return Error{ErrorKind::invalid, fmt::format("{} would have no effect: '{}' is {}", option, flags.in,
                                               adapter ? "an adapter" : "no adapter")};
}

Result<int> convert(const ConvertFlags& flags) {
  const AdapterOptions& given = flags.adapter.options;
  if (adapter_form_at(flags.in)) {
    FULMAR_TRY(refuse(!flags.vocab.empty(), "--vocab", flags, true));
    ConvertAdapterFlags adapter = flags.adapter;
    adapter.in = flags.in;
    adapter.out = flags.out;
    adapter.force = flags.force;
    FULMAR_TRY(convert_adapter(adapter));
    return 0;
  }
  for (const auto& [said, option] : {std::pair(!flags.adapter.to.empty(), "--to"),
                                     {!flags.adapter.base.empty(), "--base"},
                                     {given.alpha.has_value(), "--alpha"},
                                     {given.scale.has_value(), "--scale"},
                                     {!given.init.empty(), "--init"}}) {
    FULMAR_TRY(refuse(said, option, flags, false));
  }
  FULMAR_TRY(check_target(flags));
  FULMAR_ASSIGN(const fs::path in, find_model(flags.in));
  FULMAR_ASSIGN(const auto checkpoint, open_checkpoint(in));
  FULMAR_ASSIGN(const ModelConfig config, identify(*checkpoint));
  FULMAR_TRY(write_model(flags, in, *checkpoint, config));
  print_written(in.string(), flags.out);
  return 0;
}

// Fails if the file's format is not the one for this kind of weights.
Status check_holds(const ConvertFlags& flags, const Quantisation& type) {
  const OutputKind holds = is_block(type.dtype) ? OutputKind::gguf : OutputKind::safetensors;
  if (target_of(flags) == holds) return {};
  return Error{ErrorKind::invalid,
               fmt::format("{} goes into a {} file; '{}' is none", type.name, ending_of(holds), flags.out)};
}

// Returns the error that none of a model's weights could be quantised.
Error nothing_quantised(const ConvertFlags& flags, const ModelConfig& config) {
  if (is_float(config.dtype)) {
    return {ErrorKind::unsupported,
            fmt::format("'{}' has no matrix whose rows {} fits", flags.in, flags.type)};
  }
  return {
      ErrorKind::unsupported,
      fmt::format(
          "'{}' holds {} already, whose errors would add up; quantise the 16-bit model that it was made from",
          flags.in, name_of(config.dtype))};
}

Result<int> quantize(const ConvertFlags& flags) {
  FULMAR_TRY(check_target(flags));
  FULMAR_TRY(check_holds(flags, *quantisation_named(flags.type)));
  FULMAR_ASSIGN(const fs::path in, find_model(flags.in));
  FULMAR_ASSIGN(auto source, open_checkpoint(in));
  FULMAR_ASSIGN(const ModelConfig config, identify(*source));
  const bool keep_head = std::find(flags.keep.begin(), flags.keep.end(), "head") != flags.keep.end();
  FULMAR_ASSIGN(const Strategy strategy, strategy_named(flags.type));
  QuantiseOptions options = options_of(strategy, keep_head);
  if (!keep_head && target_of(flags) != OutputKind::gguf) options.head = quantisation_named("int8");
  if (!flags.calibrate.empty()) {
    ProgressBar bar(flags.quiet ? std::string() : "calibrating");
    FULMAR_ASSIGN(
        options.importance,
        calibrate({.model = in, .text = flags.calibrate, .vocab = flags.vocab, .progress = [&](double share) {
                     bar.show(share);
                   }}));
  }
  ProgressBar bar(flags.quiet ? std::string() : "quantising");
  options.progress = [&](double fraction) { bar.show(fraction); };
  std::vector<QuantisedKind> kinds;
  FULMAR_ASSIGN(const auto checkpoint, quantise_checkpoint(std::move(source), options, &kinds));
  if (kinds.empty()) return nothing_quantised(flags, config);
  FULMAR_TRY(write_model(flags, in, *checkpoint, config));
  fmt::print("{:<24} {:<8} {:>8} {:>14} {:>14}\n", "matrices", "type", "number", "bits a weight",
             "relative error");
  for (const QuantisedKind& kind : kinds) {
    fmt::print("{:<24} {:<8} {:>8} {:>14.4f} {:>14.5f}\n", kind.kind, kind.type, kind.matrices, kind.bits,
               kind.relative_rms);
  }
  print_written(in.string(), flags.out);
  if (const std::string advice = few_bits_advice(options, config.parameters); !advice.empty()) {
    fmt::print("advice: {}\n", advice);
  }
  return 0;
}

std::vector<std::string> file_types() {
  std::vector<std::string> names;
  for (const Quantisation& quantisation : all_quantisations()) names.emplace_back(quantisation.name);
  return names;
}

void add_common(CLI::App& command, ConvertFlags& flags) {
  command
      .add_option("in", flags.in,
                  "model file (.pth, .safetensors, .st, .gguf, .rwkvq) or the name of an installed one")
      ->required();
  command.add_option("out", flags.out, "the file to write")->required();
  command.add_option("--vocab", flags.vocab,
                     "vocabulary file to put into a .gguf; default: chosen from the model");
  command.add_flag("--force", flags.force, "replace a file that exists");
  command.add_flag("-q,--quiet", flags.quiet, "no progress bar");
}

}  // namespace

void add_convert(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<ConvertFlags>();
  auto* command = app.add_subcommand("convert", "Write a model or an adapter in another format");
  add_common(*command, *flags);
  command
      ->add_option("--to", flags->adapter.to,
                   "of an adapter: the form; default: gguf for .gguf, lightning for .pth, else a peft folder")
      ->check(CLI::IsMember({"peft", "lightning", "gguf"}));
  command->add_option("--base", flags->adapter.base,
                      "of an adapter: the model it is for, which says what the adapter does not");
  add_adapter_options(*command, flags->adapter.options);
  command->footer(
      "The ending of OUT says the format: .gguf keeps every block type and brings the vocabulary along; "
      ".safetensors\n"
      "and .pth, which PyTorch opens, have official names, and f16 where IN has blocks; types with scales "
      "beside their\n"
      "codes (nf4, int8, int4, fp8) stay what they are in .safetensors and become f16 elsewhere.\n"
      "Adapters become a folder of Hugging Face PEFT, a MiSS package of rwkv_lightning or llama.cpp's GGUF; "
      "what a\n"
      "form cannot hold is refused by name.\n\n"
      "Examples:\n  fulmar convert rwkv7-g1-1.5b.pth rwkv7-g1-1.5b.gguf\n"
      "  fulmar convert model.gguf model.safetensors\n"
      "  fulmar convert model.gguf model.pth\n"
      "  fulmar convert rwkv-4.pth lora.gguf --alpha 32 --base model.pth");
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(convert(*flags)); }; });
}

void add_quantize(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<ConvertFlags>();
  auto* command = app.add_subcommand("quantize", "Write a model file with fewer bits a weight");
  add_common(*command, *flags);
  command->add_option("--type", flags->type, "how the large matrices are stored")
      ->required()
      ->check(CLI::IsMember(file_types()));
  command->add_option("--keep", flags->keep, "what keeps its 16 bits; the embedding always does")
      ->delimiter(',')
      ->check(CLI::IsMember({"head", "embedding"}));
  command->add_option(
      "--calibrate", flags->calibrate,
      "a text like those that the model will read, or a .jsonl file of {skill, prompt, answer}: "
      "weights that meet large inputs there are kept nearer; no gain, and no change, for q5_k, q6_k and 8 "
      "bits but fp8");
  command->footer(
      "nf4, int8, int8_g128, int4 and fp8 go into .safetensors, the others into .gguf. Unless it is kept the "
      "head\n"
      "becomes q8_0 in .gguf and int8 in .safetensors; low-rank factors and vectors stay as they are. Rows "
      "that\n"
      "are no multiple of a type's block take the next better type.\n\n"
      "Examples:\n  fulmar quantize rwkv7-g1-7.2b.pth rwkv7-g1-7.2b-q4_k.gguf --type q4_k\n"
      "  fulmar quantize model.safetensors small.gguf --type q8_0 --keep head\n"
      "  fulmar quantize model.pth small.safetensors --type nf4\n"
      "  fulmar quantize model.pth small.gguf --type q4_k --calibrate book.txt");
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(quantize(*flags)); }; });
}

}  // namespace fulmar
