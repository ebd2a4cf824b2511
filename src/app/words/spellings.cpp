#include "app/words/spellings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

namespace fulmar {

namespace {

using Position = Spelling::Position;
constexpr Position kOwnCommand = Position::own_command;
constexpr std::string_view kMeasuring = "bench";
constexpr std::string_view kMeasured = "what bench measures";  // its own command
constexpr std::string_view kUsual = "steps";                   // measured if no word says

constexpr Spelling kOwn[] = {
    {"", "--device", 1, "--devices=$", {}, {}, false},
    {"", "--pp-devices", 1, "--devices=all", {}, "auto"},
    {"", "--pp-devices", 1, "--devices=$"},
    {"", "--tp-devices", 1, "--devices=all --tp=all", {}, "auto"},
    {"", "--tp-devices", 1, "--devices=$ --tp=all"},
    {"", "--pp-split", 1, "--split=$"},
    {"", "--cpu-activation", 1, "--activation=$"},
    {"", "--no-panels", 0, "--pretend=sm80"},
    {"", "--no-matrix-units", 0, "--pretend=simt"},
    {"", "--plain-products", 0, "",
     "they take the place of the GPU's library by themselves where it is missing"},
    {"serve", "--recommended-sampling", 0, "--sampling-defaults=model"},
    {"serve", "--openai-defaults", 0, "--sampling-defaults=openai"},
    {"serve", "--no-model", 0, "--model=none"},
    {"serve", "--enable-dynamic-loading", 0, "--switch-models",
     "a folder of several models as --model means it"},
    {"serve", "--auth-all", 0, "--open=none", {}, {}, true, Position::here, true},
    {"serve", "--open-translate", 0, "--open=translate", {}, {}, true, Position::here, true},
    {"control", "--state-dir", 1, "--sessions-dir=$"},
    {"bench", "--defer", 1, "--defer-state-writes=$"},
    {"bench", "--kernels", 0, "kernels", {}, {}, true, kOwnCommand},
    {"bench", "--structured", 0, "structured", {}, {}, true, kOwnCommand},
    {"bench", "--serve", 0, "serve", {}, {}, true, kOwnCommand},
    {"bench", "--load", 1, "load --client=$", {}, {}, true, kOwnCommand},
    {"bench", "--drafts", 1, "drafts --drafter=$", {}, {}, true, kOwnCommand},
    {"bench", "--speculate", 1, "drafts --drafter=$", {}, {}, true, kOwnCommand},
    {"eval", "--speculate", 1, "--drafts=$"},
};

constexpr Spelling kOthers[] = {
    {"", "--model-path", 1, "--model=$"},
    {"", "--vocab-path", 1, "--vocab=$"},
    {"", "--tokenizer-path", 1, "--vocab=$"},
    {"serve", "--localhost", 1, "--host=$"},
    {"serve", "--max-batch-size", 1, "--slots=$"},
    {"serve", "--max_batch_size", 1, "--slots=$"},
    {"serve", "--prefill-chunk-size", 1, "--prefill-chunk=$"},
    {"serve", "--chunk-size", 1, "--prefill-chunk=$"},
    {"serve", "--max-queue-size", 1, "--max-queue=$"},
    {"serve", "--max_queue_size", 1, "--max-queue=$"},
    {"serve", "--max_completion_tokens", 1, "--max-tokens-limit=$"},
    {"serve", "--debug", 0, "--log=debug", {}, {}, true, Position::of_program},
    {"serve", "--max-prefill-batch", 1, "", "a step's prompts are bounded in tokens, by --prefill-chunk"},
    {"serve", "--use-cuda-graph", 0, "", "the backend records its steps where that pays"},
    {"serve", "--max_seq_len", 1, "", "a recurrent state has no length"},
    {"serve", "--workers", 1, "", "one process serves; `fulmar control` runs several"},
    {"serve", "--dynamic_state_cache_size", 1, "",
     "prompt beginnings are bounded in memory, by --cache-device and --cache-host"},
    {"serve", "--dynamic_state_cache_store", 1, "", "both device and host memory are used"},
    {"serve", "--wkv32", 0, "", "states are fp32 unless --state-dtype says otherwise"},
    {"serve", "--chunk-load", 0, "", "weights are always read in pieces"},
    {"serve", "--enable-lora", 0, "", "adapters need no leave"},
    {"serve", "--max-lora-rank", 1, "", "ranks are as their files say"},
    {"serve", "--max-loras", 1, "", "adapters on devices are bounded in memory, by --adapter-device"},
    {"serve", "--max-cpu-loras", 1, "", "adapters are bounded in memory, by --adapter-host"},
};

constexpr std::string_view kOtherServers[] = {"rwkv_lightning", "rwkv_lightning_cuda", "albatross", "conrwkv",
                                              "rwkv_infer"};

// A word, and the value after its "=" if it has one.
struct Word {
  std::string_view name;
  std::optional<std::string> value;
};

Word split_word(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos) return {word, std::nullopt};
  return {std::string_view(word).substr(0, equals), word.substr(equals + 1)};
}

bool belongs(const Spelling& row, std::string_view command, std::string_view name) {
  return row.old == name && (row.command.empty() || row.command == command);
}

// Returns the first row of the tables that replaces the word, with `value` if one is given; null: none does.
// All rows of a word take equally many values.
const Spelling* row_of(std::string_view command, std::string_view name, const std::string* value = nullptr) {
  for (const auto& table : {own_spellings(), others_spellings()}) {
    for (const Spelling& row : table) {
      const bool fits = !value || row.of_value.empty() || row.of_value == *value;
      if (fits && belongs(row, command, name)) return &row;
    }
  }
  return nullptr;
}

// Returns today's words with the value in place of "$".
std::vector<std::string> filled(std::string_view now, const std::string& value) {
  std::vector<std::string> words;
  while (!now.empty()) {
    const size_t end = std::min(now.find(' '), now.size());
    std::string word(now.substr(0, end));
    if (const size_t at = word.find('$'); at != std::string::npos) word.replace(at, 1, value);
    words.push_back(std::move(word));
    now.remove_prefix(std::min(end + 1, now.size()));
  }
  return words;
}

std::string note_of(const Spelling& row, const std::vector<std::string>& now) {
  if (now.empty()) return fmt::format("{} has no effect: {}", row.old, row.why);
  if (!row.why.empty()) return fmt::format("{} is not needed: {}", row.old, row.why);
  return fmt::format("{} is spelled {} now", row.old, fmt::join(now, " "));
}

// Translates the words of a command one after the other.
class Translation {
 public:
  // Translates into `into`, which ends with the command.
  explicit Translation(TodaysWords& into)
      : into_(into), command_(into.words.back()), behind_(into.words.size()) {}

  // Translates words[at] with its value; returns the index of the next word. `as_other`: it is another
  // server's, whose spellings need no note if they have an effect.
  Result<size_t> take(const std::vector<std::string>& words, size_t at, bool as_other) {
    const Word word = split_word(words[at]);
    const Spelling* const any = row_of(command_, word.name);
    if (!any) {
      FULMAR_TRY(claim(word.name, word.name));
      into_.words.push_back(words[at]);
      return at + 1;
    }
    const bool apart = any->values == 1 && !word.value;
    if (apart && at + 1 == words.size()) {
      return Error{ErrorKind::invalid, fmt::format("{}: the value is missing", word.name)};
    }
    const std::string value = apart ? words[at + 1] : word.value.value_or("");
    if (any->values > 0 || value != "false") {
      FULMAR_TRY(replace(*row_of(command_, word.name, &value), value, as_other));
    }
    return at + (apart ? 2 : 1);
  }

  // Takes the next word as what bench measures; none if it is an option.
  Result<size_t> take_measured(const std::vector<std::string>& words, size_t at) {
    if (at == words.size() || words[at].starts_with('-')) return at;
    FULMAR_TRY(say(kMeasured, words[at]));
    into_.words.push_back(words[at]);
    behind_++;
    return at + 1;
  }

  // Sets what bench measures if no word did.
  void end_measured() {
    const auto asks = [](const std::string& word) { return word == "--help" || word == "-h"; };
    if (said_by_.contains(kMeasured) || std::any_of(into_.words.begin(), into_.words.end(), asks)) return;
    into_.words.insert(into_.words.begin() + static_cast<ptrdiff_t>(behind_), std::string(kUsual));
    into_.notes.push_back(
        fmt::format("{} without a command is spelled {} {} now", command_, command_, kUsual));
  }

 private:
  Status replace(const Spelling& row, const std::string& value, bool as_other) {
    const std::vector<std::string> now = filled(row.now, value);
    if (row.place == Position::own_command) FULMAR_TRY(say(kMeasured, row.old));
    for (const std::string& word : now) {
      if (!row.joins) FULMAR_TRY(claim(split_word(word).name, row.old));
    }
    if (row.told && (!as_other || now.empty())) into_.notes.push_back(note_of(row, now));
    const size_t at = row.place == Position::here         ? into_.words.size()
                      : row.place == Position::of_program ? 0
                                                          : behind_;
    into_.words.insert(into_.words.begin() + static_cast<ptrdiff_t>(at), now.begin(), now.end());
    if (row.place == Position::of_program) behind_ += now.size();
    return {};
  }

  // Fails if two spellings of one option are given together: neither takes precedence.
  Status claim(std::string_view option, std::string_view spelling) {
    return option.starts_with("--") ? say(option, spelling) : Status();
  }

  Status say(std::string_view what, std::string_view spelling) {
    const auto [first, fresh] = said_by_.emplace(what, spelling);
    if (fresh || first->second == spelling) return {};
    return Error{ErrorKind::invalid,
                 fmt::format("{} and {} both say {}; wanted one of them", first->second, spelling, what)};
  }

  TodaysWords& into_;
  const std::string command_;
  size_t behind_;  // the index after the command, and after its own one
  std::map<std::string, std::string, std::less<>> said_by_;  // today's words, and the spelling that set each
};

Status check_server(std::string_view name) {
  if (std::find(std::begin(kOtherServers), std::end(kOtherServers), name) != std::end(kOtherServers))
    return {};
  return Error{ErrorKind::invalid,
               fmt::format("--as is '{}'; wanted one of {}", name, fmt::join(kOtherServers, ", "))};
}

}  // namespace

std::span<const Spelling> own_spellings() { return kOwn; }
std::span<const Spelling> others_spellings() { return kOthers; }
std::span<const std::string_view> other_servers() { return kOtherServers; }

size_t place_of_command(const std::vector<std::string>& words) {
  size_t at = 0;
  while (at < words.size() && words[at].starts_with('-')) at += words[at] == "--log" ? 2 : 1;
  return std::min(at, words.size());
}

Result<TodaysWords> in_todays_spellings(const std::vector<std::string>& words) {
  TodaysWords today;
  const size_t place = place_of_command(words);
  if (place == words.size()) return TodaysWords{words, {}};
  const std::string& command = words[place];
  today.words.assign(words.begin(), words.begin() + static_cast<ptrdiff_t>(place) + 1);
  Translation translation(today);
  bool as_other = false;
  size_t at = place + 1;
  if (command == kMeasuring) {
    FULMAR_ASSIGN(at, translation.take_measured(words, at));
  }
  while (at < words.size()) {
    const Word word = split_word(words[at]);
    if (command == "serve" && word.name == "--as" && !as_other) {
      const bool apart = !word.value;
      const std::string server = word.value.value_or(at + 1 < words.size() ? words[at + 1] : std::string());
      FULMAR_TRY(check_server(server));
      as_other = true;
      at += apart ? 2 : 1;
    } else if (words[at] == "--" && as_other) {
      at++;  // what follows is read as options, too
    } else if (words[at] == "--") {
      today.words.insert(today.words.end(), words.begin() + static_cast<ptrdiff_t>(at), words.end());
      break;
    } else {
      FULMAR_ASSIGN(at, translation.take(words, at, as_other));
    }
  }
  if (command == kMeasuring) translation.end_measured();
  return today;
}

}  // namespace fulmar
