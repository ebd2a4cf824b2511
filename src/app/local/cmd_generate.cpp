// fulmar generate: one prompt in, its continuation out.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "app/core/commands.h"
#include "app/core/exit_code.h"
#include "app/local/local_run.h"
#include "base/read_file.h"
#include "text/chat_template.h"

namespace fulmar {

namespace {

struct GenerateFlags {
  ModelFlags model;
  SamplingFlags sampling;
  std::string prompt, adapter;
  bool raw = false;
  bool stats = false;
};

Result<int> generate(GenerateFlags flags) {
  if (flags.prompt.empty()) {
    FULMAR_ASSIGN(flags.prompt, read_input());
  }
  if (flags.prompt.empty())
    return Error{ErrorKind::invalid, "the prompt is empty; give --prompt TEXT or pipe a text in"};
  FULMAR_ASSIGN(const LocalEngine local, open_local(flags.model, flags.adapter, 0));
  const LoadedModel& loaded = local.loaded;
  const Tokenizer& tokenizer = *loaded.tokenizer;
  const PromptTemplate& form = *loaded.prompt_template;
  const std::string text = flags.raw ? flags.prompt : render_utterance(flags.prompt, form.unasked, form);
  Ask ask{
      .request_id = "generate", .prompt = tokenizer.encode(text), .sampling = sampling_of(flags.sampling)};
  ask.max_tokens = flags.sampling.max_tokens;
  ask.adapter = local.adapter;
  ask.state.initial_state = local.initial_state;
  if (const auto eos = tokenizer.eos()) ask.stop.ids.push_back(*eos);
  ask.stop.texts = flags.sampling.stops;
  if (!flags.raw && ask.stop.texts.empty()) {
    ask.stop.texts.assign(form.chat_stops.begin(), form.chat_stops.end());
    if (form.end_token_first && tokenizer.eos() == 0) ask.prompt.insert(ask.prompt.begin(), 0);
  }

  bool first = !flags.raw;
  const auto started = std::chrono::steady_clock::now();
  FULMAR_ASSIGN(const Event last, run_row(*local.engine, std::move(ask), [&](const std::string& piece) {
                  const size_t skip = first ? std::min(piece.find_first_not_of(' '), piece.size()) : 0;
                  first = first && skip == piece.size();
                  std::fwrite(piece.data() + skip, 1, piece.size() - skip, stdout);
                  std::fflush(stdout);
                }));
  std::fputc('\n', stdout);
  if (flags.stats) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    fmt::print(stderr, "{} prompt tokens, {} generated in {:.2f} s\n", last.usage.prompt_tokens,
               last.usage.completion_tokens, seconds);
  }
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<GenerateFlags>();
  auto* command = app.add_subcommand("generate", "Continue one prompt and exit");
  command->add_option("-p,--prompt,prompt", flags->prompt, "the prompt; standard input when absent");
  command->add_flag("--raw", flags->raw,
                    "feed the prompt as it is, without 'User: ... Assistant:' around it");
  command->add_flag("--stats", flags->stats, "print token counts and time to stderr");
  add_model_flags(*command, flags->model);
  add_adapter_flag(*command, flags->adapter);
  add_sampling_flags(*command, flags->sampling);
  command->footer(
      "Examples:\n"
      "  fulmar generate \"What is 12 + 30?\"\n"
      "  fulmar generate -m rwkv7-g1-1.5b.pth --raw -t 0.8 -n 200 -p \"The Eiffel tower is in\"\n"
      "  fulmar generate -m model.pth --adapter rwkv-4.pth,alpha=32 \"SELECT\"\n"
      "  cat letter.txt | fulmar generate --raw --stop \"Yours\"");
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(generate(*flags)); }; });
}

}  // namespace fulmar
