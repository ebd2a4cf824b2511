// fulmar chat: a conversation in the terminal; the state stays between turns and can live in a file.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <span>

#include "app/core/commands.h"
#include "app/core/exit_code.h"
#include "app/local/local_run.h"
#include "base/read_file.h"
#include "base/write_file.h"
#include "cache/state_blob.h"
#include "text/chat_template.h"

namespace fulmar {

namespace {

namespace fs = std::filesystem;

constexpr const char* kSession = "chat";

struct ChatFlags {
  ModelFlags model;
  SamplingFlags sampling;
  std::string system;
  std::string session_file;
  std::string adapter;
};

class Chat {
 public:
  Chat(ChatFlags flags, LocalEngine local) : flags_(std::move(flags)), local_(std::move(local)) {}

  Status open_session() {
    std::error_code error;
    if (flags_.session_file.empty() || !fs::exists(flags_.session_file, error)) return {};
    FULMAR_ASSIGN(const std::string bytes, read_file(flags_.session_file, kMostFileBytes));
    FULMAR_ASSIGN(const StateBlob blob, decode_blob(std::as_bytes(std::span(bytes))));
    FULMAR_TRY(local_.engine->import_session({}, kSession, blob));
    fmt::print(stderr, "continuing {} ({} tokens so far)\n", flags_.session_file, blob.tokens);
    return {};
  }

  Status turn(const std::string& text) {
    const Tokenizer& tokenizer = *local_.loaded.tokenizer;
    const PromptTemplate& form = *local_.loaded.prompt_template;
    const std::string system = flags_.system.empty()
                                   ? ""
                                   : fmt::format("{}{}{}{}{}", form.system, form.after_role, flags_.system,
                                                 form.after_turn, form.between_turns);
    const std::string turn = render_utterance(text, form.unasked, form);
    Ask ask{.request_id = "turn",
            .prompt = tokenizer.encode(system + turn),
            .sampling = sampling_of(flags_.sampling)};
    ask.state = {.read_session = kSession,
                 .write_session = kSession,
                 .continuing = tokenizer.encode(form.turn_end() + turn),
                 .keep_on_cancel = true,
                 .initial_state = local_.initial_state};
    ask.adapter = local_.adapter;
    ask.max_tokens = flags_.sampling.max_tokens;
    if (const auto eos = tokenizer.eos()) ask.stop.ids.push_back(*eos);
    ask.stop.texts = flags_.sampling.stops;
    if (ask.stop.texts.empty()) ask.stop.texts.assign(form.chat_stops.begin(), form.chat_stops.end());
    if (form.end_token_first && tokenizer.eos() == 0) ask.prompt.insert(ask.prompt.begin(), 0);
    bool at_start = true;
    FULMAR_ASSIGN(const Event last, run_row(*local_.engine, std::move(ask), [&](const std::string& piece) {
                    const size_t skip = at_start ? std::min(piece.find_first_not_of(" \n"), piece.size()) : 0;
                    at_start = at_start && skip == piece.size();
                    std::fwrite(piece.data() + skip, 1, piece.size() - skip, stdout);
                    std::fflush(stdout);
                  }));
    std::fputs(is_cut(last.reason) ? " [stopped]\n" : "\n", stdout);
    std::fflush(stdout);
    return save();
  }

  Status save() {
    if (flags_.session_file.empty()) return {};
    FULMAR_ASSIGN(const StateBlob blob, local_.engine->export_session({}, kSession));
    const auto bytes = encode_blob(blob);
    return write_whole_file(flags_.session_file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

  void reset() { (void)local_.engine->erase_session({}, kSession, false); }

 private:
  ChatFlags flags_;
  LocalEngine local_;
};

Result<int> chat(const ChatFlags& flags) {
  if (!flags.session_file.empty()) FULMAR_TRY(check_replaceable(flags.session_file));
  FULMAR_ASSIGN(LocalEngine local, open_local(flags.model, flags.adapter, 1));
  Chat conversation(flags, std::move(local));
  FULMAR_TRY(conversation.open_session());
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal)
    fmt::print(stderr,
               "Type a message; /reset forgets the conversation, /quit or Ctrl-D ends it, Ctrl-C stops an "
               "answer.\n");
  std::string line;
  while (true) {
    if (terminal) fmt::print("\n> ");
    std::fflush(stdout);
    if (!std::getline(std::cin, line) || line == "/quit") break;
    if (line == "/reset") {
      conversation.reset();
      continue;
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    FULMAR_TRY(conversation.turn(line));
  }
  if (terminal) fmt::print("\n");
  return 0;
}

}  // namespace

void add_chat(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<ChatFlags>();
  auto* command = app.add_subcommand("chat", "Talk to a model in the terminal");
  add_model_flags(*command, flags->model);
  add_adapter_flag(*command, flags->adapter);
  add_sampling_flags(*command, flags->sampling);
  command->add_option("--system", flags->system, "a system turn before the first message");
  command->add_option("--session", flags->session_file,
                      "file to continue the conversation from and keep it in");
  command->footer(
      "Examples:\n"
      "  fulmar chat\n"
      "  fulmar chat -m rwkv7-g1-2.9b.pth --session trip.state\n"
      "  echo \"What is 12 + 30?\" | fulmar chat -t 0");
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(chat(*flags)); }; });
}

}  // namespace fulmar
