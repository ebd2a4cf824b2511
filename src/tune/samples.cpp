#include "tune/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "net/json.h"
#include "text/chat_template.h"

namespace fulmar {
namespace {

constexpr size_t kMostMessages = 1024;

// A piece of a sample's text.
struct TextPart {
  std::string text;
  bool counts = true;
};
using TextParts = std::vector<TextPart>;

Error invalid(std::string text) { return {ErrorKind::invalid, std::move(text)}; }

// Returns the member, which must be a string.
Result<std::string> text_member(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.find(name);
  if (value == nullptr) return invalid(fmt::format("'{}' is missing", name));
  if (!value->is_string()) return invalid(fmt::format("'{}' is {}; wanted a string", name, describe(*value)));
  return value->as_string();
}

// Checks that the object has no member but these.
Status check_members(const JsonValue& object, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.as_object().members()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return invalid(fmt::format("'{}' has no effect beside '{}'", name, *known.begin()));
  }
  return {};
}

Result<std::vector<ChatMessage>> read_messages(const JsonValue& line) {
  const JsonValue& list = *line.find("messages");
  if (!list.is_array() || list.as_array().empty() || list.as_array().size() > kMostMessages) {
    return invalid(
        fmt::format("'messages' is {}; wanted an array of 1 to {}", describe(list), kMostMessages));
  }
  std::vector<ChatMessage> messages;
  for (const JsonValue& one : list.as_array()) {
    if (!one.is_object()) return invalid(fmt::format("a message is {}; wanted an object", describe(one)));
    FULMAR_TRY(check_members(one, {"role", "content"}));
    ChatMessage& message = messages.emplace_back();
    FULMAR_ASSIGN(message.role, text_member(one, "role"));
    FULMAR_ASSIGN(message.content, text_member(one, "content"));
  }
  return messages;
}

// Splits the rendered chat at the beginning and end of everything that the assistant says.
Result<TextParts> parts_of_chat(const std::vector<ChatMessage>& messages, const PromptTemplate& form) {
  TextParts parts;
  size_t done = 0;
  ChatOptions options{.prompt_template = &form};
  const std::span<const ChatMessage> all(messages);
  for (size_t i = 0; i < all.size(); i++) {
    if (all[i].role != "assistant" || i == 0) continue;
    options.add_generation_prompt = true;
    FULMAR_ASSIGN(const std::string before, render_chat(all.first(i), options));
    options.add_generation_prompt = false;
    FULMAR_ASSIGN(const std::string with, render_chat(all.first(i + 1), options));
    if (!with.starts_with(before) || before.size() < done) {
      return invalid(
          fmt::format("message {} does not continue its prompt in the template '{}'", i + 1, form.name));
    }
    parts.push_back({before.substr(done), false});
    parts.push_back({with.substr(before.size()), true});
    done = with.size();
  }
  if (parts.empty()) return invalid("'messages' holds nothing that the assistant says after another message");
  return parts;
}

Result<TextParts> parts_of(const JsonValue& line, const PromptTemplate& form) {
  if (!line.is_object()) return invalid(fmt::format("{}; wanted an object", describe(line)));
  if (line.find("text") != nullptr) {
    FULMAR_TRY(check_members(line, {"text"}));
    FULMAR_ASSIGN(std::string text, text_member(line, "text"));
    return TextParts{{std::move(text), true}};
  }
  if (line.find("messages") != nullptr) {
    FULMAR_TRY(check_members(line, {"messages"}));
    FULMAR_ASSIGN(const std::vector<ChatMessage> messages, read_messages(line));
    return parts_of_chat(messages, form);
  }
  if (line.find("prompt") == nullptr) {
    return invalid("no member 'text', 'prompt' or 'messages'; wanted one of them");
  }
  const std::string_view answer = line.find("completion") != nullptr ? "completion" : "answer";
  FULMAR_TRY(check_members(line, {"prompt", answer}));
  FULMAR_ASSIGN(std::string prompt, text_member(line, "prompt"));
  FULMAR_ASSIGN(std::string completion, text_member(line, answer));
  return TextParts{{std::move(prompt), false}, {std::move(completion), true}};
}

// Tokens with whether each of them counts as a target.
struct Marked {
  std::vector<int32_t> ids;
  std::vector<bool> counts;
};

Result<Marked> encode(const TextParts& parts, const SampleOptions& options) {
  Marked marked;
  for (const TextPart& part : parts) {
    if (const auto at = options.tokenizer.first_unknown(part.text)) {
      return invalid(
          fmt::format("the vocabulary has no token for byte {} of '{}'", *at, part.text.substr(0, 40)));
    }
    options.tokenizer.encode(part.text, marked.ids);
    marked.counts.resize(marked.ids.size(), part.counts || !options.answers_only);
  }
  if (const auto end = options.tokenizer.eos()) {
    marked.ids.push_back(*end);
    marked.counts.push_back(true);
  }
  const auto beyond = std::ranges::find_if(marked.ids, [&](int32_t id) { return id >= options.vocab; });
  if (beyond == marked.ids.end()) return marked;
  return invalid(fmt::format("token {} is beyond the model's vocabulary of {}", *beyond, options.vocab));
}

// Adds the sample of one line, cut to the context, or counts why there is none.
void add_sample(const Marked& marked, const SampleOptions& options, Samples& to) {
  const size_t all = marked.ids.empty() ? 0 : marked.ids.size() - 1;
  const size_t kept = std::min(all, static_cast<size_t>(options.context));
  TuneSample sample;
  for (size_t t = 0; t < kept; t++) {
    sample.tokens.push_back(marked.ids[t]);
    sample.targets.push_back(marked.counts[t + 1] ? marked.ids[t + 1] : -1);
  }
  if (std::ranges::all_of(sample.targets, [](int32_t target) { return target < 0; })) {
    to.skipped++;
    return;
  }
  to.cut += kept < all ? 1 : 0;
  to.samples.push_back(std::move(sample));
}

Result<Marked> read_line(std::string_view line, const SampleOptions& options) {
  FULMAR_ASSIGN(const JsonValue json, parse_json(line));
  FULMAR_ASSIGN(const TextParts parts, parts_of(json, options.prompt_template));
  return encode(parts, options);
}

// Returns the next number of splitmix64.
uint64_t next_number(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

Result<Samples> read_samples(std::string_view lines, const SampleOptions& options) {
  Samples samples;
  for (int64_t number = 1; !lines.empty(); number++) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Result<Marked> marked = read_line(line, options);
    if (!marked.ok())
      return Error{marked.error().kind, fmt::format("line {}: {}", number, marked.error().text)};
    add_sample(*marked, options, samples);
  }
  if (samples.samples.empty()) {
    return invalid(
        fmt::format("no sample to train with ({} lines have fewer than two tokens or no target within "
                    "the context of {})",
                    samples.skipped, options.context));
  }
  return samples;
}

int64_t steps_of_epoch(int64_t count, int64_t batch) { return (count + batch - 1) / batch; }

std::vector<int64_t> samples_of_step(int64_t step, int64_t count, int64_t batch, uint64_t seed) {
  const int64_t steps = steps_of_epoch(count, batch), epoch = step / steps;
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  uint64_t mixed = seed, state = next_number(mixed) + static_cast<uint64_t>(epoch);
  for (size_t i = order.size() - 1; i > 0; i--) std::swap(order[i], order[next_number(state) % (i + 1)]);
  const int64_t first = step % steps * batch, end = std::min(first + batch, count);
  return {order.begin() + first, order.begin() + end};
}

TuneBatch batch_of(const Samples& samples, const std::vector<int64_t>& indices) {
  TuneBatch batch;
  for (const int64_t index : indices) {
    const TuneSample& sample = samples.samples[static_cast<size_t>(index)];
    batch.tokens.insert(batch.tokens.end(), sample.tokens.begin(), sample.tokens.end());
    batch.targets.insert(batch.targets.end(), sample.targets.begin(), sample.targets.end());
    batch.bounds.push_back(static_cast<int64_t>(batch.tokens.size()));
  }
  return batch;
}

}  // namespace fulmar
