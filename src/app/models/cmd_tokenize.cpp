// fulmar tokenize and fulmar tokenizer import: text to ids, and the vocabulary's place on this machine.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <charconv>

#include "app/core/commands.h"
#include "app/core/exit_code.h"
#include "app/core/model_source.h"
#include "base/read_file.h"
#include "files/checkpoint.h"
#include "files/identify.h"
#include "text/locate_vocabulary.h"

namespace fulmar {

namespace {

struct TokenizeFlags {
  std::string model, vocab, text;
  bool ids_only = false;
  bool decode = false;
};

// Returns the tokenizer only: the model file is looked at, not loaded.
Result<std::unique_ptr<Tokenizer>> tokenizer_for(const TokenizeFlags& flags) {
  if (!flags.vocab.empty()) return choose_tokenizer({.explicit_vocabulary = flags.vocab});
  FULMAR_ASSIGN(const auto path, find_model(flags.model));
  FULMAR_ASSIGN(const auto checkpoint, open_checkpoint(path));
  FULMAR_ASSIGN(const ModelConfig config, identify(*checkpoint));
  return tokenizer_of(*checkpoint, path, config.vocab, {});
}

Result<std::vector<int32_t>> parse_ids(std::string_view text) {
  std::vector<int32_t> ids;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    if (*at == ' ' || *at == ',' || *at == '\n' || *at == '\t') {
      at++;
      continue;
    }
    int32_t id = 0;
    const auto parsed = std::from_chars(at, end, id);
    if (parsed.ec != std::errc()) {
      return Error{ErrorKind::invalid,
                   fmt::format("'{}' is no token id; wanted whole numbers", std::string(at, end))};
    }
    ids.push_back(id);
    at = parsed.ptr;
  }
  return ids;
}

Status check_ids(const std::vector<int32_t>& ids, int32_t size) {
  for (const int32_t id : ids) {
    if (id >= 0 && id < size) continue;
    return Error{ErrorKind::invalid, fmt::format("{} is no token id; wanted ids of 0 to {}", id, size - 1)};
  }
  return {};
}

std::string printable(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\\') {
      out += "\\\\";
    } else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

Result<int> tokenize(TokenizeFlags flags) {
  FULMAR_ASSIGN(const auto tokenizer, tokenizer_for(flags));
  if (flags.text.empty()) {
    FULMAR_ASSIGN(flags.text, read_input());
  }
  if (flags.decode) {
    FULMAR_ASSIGN(const auto ids, parse_ids(flags.text));
    FULMAR_TRY(check_ids(ids, tokenizer->vocabulary_size()));
    const std::string bytes = tokenizer->decode(ids);
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    return 0;
  }
  for (const int32_t id : tokenizer->encode(flags.text)) {
    if (flags.ids_only) {
      fmt::print("{} ", id);
    } else {
      fmt::print("{:6d}  {}\n", id, printable(tokenizer->bytes(id)));
    }
  }
  if (flags.ids_only) fmt::print("\n");
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<TokenizeFlags>();
  auto* command = app.add_subcommand("tokenize", "Show the tokens of a text, or the text of token ids");
  command->add_option("text", flags->text, "the text; standard input when absent");
  command->add_option("-m,--model", flags->model,
                      "the model whose vocabulary to use; default: the demo model");
  command->add_option("--vocab,--vocab-path,--tokenizer-path", flags->vocab, "a vocabulary file");
  command->add_flag("--ids", flags->ids_only, "ids alone, on one line");
  command->add_flag("-d,--decode", flags->decode, "the input is ids; print their text");
  command->footer(
      "Examples:\n"
      "  fulmar tokenize \"User: hello\"\n"
      "  fulmar tokenize --ids \"User: hello\" | fulmar tokenize --decode");
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(tokenize(*flags)); }; });
}

void add_tokenizer(CLI::App& app, Command& chosen) {
  auto file = std::make_shared<std::string>();
  auto* group = app.add_subcommand("tokenizer", "Install the World vocabulary");
  group->require_subcommand(1);
  auto* import =
      group->add_subcommand("import", "Check rwkv_vocab_v20230424.txt and keep it for every later run");
  import->add_option("file", *file, "the vocabulary file")->required();
  import->footer("Example:\n  fulmar tokenizer import rwkv_vocab_v20230424.txt");
  import->callback([file, &chosen] {
    chosen = [file] {
      const auto installed = import_vocabulary(*file);
  if (!installed.ok()) return report(installed.error());
  fmt::print("installed as {}\n", installed->string());
  return 0;
};
}  // namespace fulmar
);
}

}  // namespace fulmar
