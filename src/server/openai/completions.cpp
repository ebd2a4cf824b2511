// Reads the fields of a completion and submits it.
#include "server/openai/completions.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/count.h"
#include "net/json.h"
#include "server/generate/intake.h"
#include "server/openai/completion_writer.h"
#include "text/chat_template.h"

namespace fulmar {
namespace {

// Estimated bytes of a log-probability in an answer, and the bound for what echoes add to one.
constexpr int64_t kScoreBytes = 64;
constexpr int64_t kMostEchoBytes = int64_t{256} << 20;

// One prompt: a text, or token ids to use as they are.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
};

bool read_ids(Fields& fields, const JsonValue::Array& list, const ServedModel& model,
              std::vector<int32_t>& ids) {
  ids.reserve(list.size());
  for (const JsonValue& element : list) {
    const std::optional<int64_t> id = element.is_number() ? lenient_int(element) : std::nullopt;
    if (!id || *id < 0 || *id >= model.vocabulary) {
      fields.fail(bad_value(fmt::format("'prompt' holds {} among token ids; wanted ids of 0 to {}",
                                        describe(element), model.vocabulary - 1),
                            "prompt"));
      return false;
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return true;
}

bool read_prompt(Fields& fields, const JsonValue& value, const ServedModel& model,
                 std::vector<Prompt>& prompts) {
  Prompt& prompt = prompts.emplace_back();
  if (value.is_string()) {
    prompt.text = value.as_string();
  } else if (value.is_array()) {
    if (!read_ids(fields, value.as_array(), model, prompt.ids)) return false;
  } else {
    fields.fail_type("prompt", value, "a string, token ids, or an array of either");
    return false;
  }
  if (prompt.text.empty() && prompt.ids.empty()) fields.fail(bad_value("prompt is empty", "prompt"));
  return !fields.failed();
}

std::vector<Prompt> read_prompts(Fields& fields, const ServedModel& model) {
  std::vector<Prompt> prompts;
  const JsonValue& value = *fields.find(kCompletionFields["prompt"]);
  const bool many = value.is_array() && !value.as_array().front().is_number();
  if (!many) {
    read_prompt(fields, value, model, prompts);
    return prompts;
  }
  for (const JsonValue& element : value.as_array()) {
    if (!read_prompt(fields, element, model, prompts)) break;
  }
  return prompts;
}

// Turns each prompt into the prefix of a hole that ends in `suffix`.
void wrap_infill(Fields& fields, std::vector<Prompt>& prompts, const std::string& suffix) {
  for (Prompt& prompt : prompts) {
    if (!prompt.ids.empty()) {
      return fields.fail(bad_value("'suffix' needs a prompt of text; found token ids", "suffix"));
    }
    prompt.text = render_infill(prompt.text, suffix);
  }
}

void read_choices(Fields& fields, CompletionShape& shape, bool stream) {
  shape.choices_per_prompt = static_cast<int32_t>(fields.count(kCompletionFields["n"]));
  const int64_t best = fields.integer(kCompletionFields["best_of"]).value_or(shape.choices_per_prompt);
  shape.rows_per_prompt = static_cast<int32_t>(best);
  if (best < shape.choices_per_prompt) {
    fields.fail(
        bad_value(fmt::format("'best_of' is {}, less than 'n', which is {}", best, shape.choices_per_prompt),
                  "best_of"));
  }
  if (best > shape.choices_per_prompt && stream) {
    fields.fail(bad_value("'best_of' above 'n' cannot be streamed", "best_of", "unsupported_parameter"));
  }
}

void read_echo(Fields& fields, const std::vector<Prompt>& prompts, const ServedModel& model, bool stream,
               CompletionShape& shape) {
  if (!fields.flag(kCompletionFields["echo"])) return;
  if (stream && shape.logprobs) {
    fields.fail(bad_value("'echo' with 'logprobs' cannot be streamed", "echo", "unsupported_parameter"));
  }
  if (fields.present(kCompletionFields["suffix"])) {
    fields.fail(bad_value("'echo' cannot be combined with 'suffix'", "echo", "unsupported_parameter"));
  }
  for (const Prompt& prompt : prompts) {
    shape.echo.push_back(prompt.ids.empty() ? prompt.text : model.tokenizer->decode(prompt.ids));
  }
}

// Returns why prompts cannot come back in the answer: what they and their log-probabilities add to it has a
// bound, whatever the answers add.
std::optional<ApiError> echo_fault(const Submission& submission, const CompletionShape& shape) {
  Count bytes = 0;
  for (const std::string& echo : shape.echo) bytes += echo.size();
  if (submission.score_prompt) {
    const int64_t entries = 1 + std::max<int64_t>(0, submission.generation.sampling.top_logprobs);
    for (const auto& prompt : submission.prompts) bytes += Count(prompt.size()) * entries * kScoreBytes;
  }
  bytes = bytes * shape.rows_per_prompt;
  if (bytes <= kMostEchoBytes) return std::nullopt;
  return bad_value(
      fmt::format("'echo' makes the answer {} bytes longer, {} for each log-probability; at most {} "
                  "are allowed",
                  bytes.value(), kScoreBytes, kMostEchoBytes),
      "echo");
}

}  // namespace

void complete_text(std::shared_ptr<Call> call) {
  call->set_family(Family::openai);
  Fields fields(call->body());
  Submission submission;
  submission.model = pick_model(*call, fields);
  if (fields.failed()) return call->fail(fields.fault());
  const ServedModel& model = *submission.model;

  std::vector<Prompt> prompts = read_prompts(fields, model);
  GenerationDefaults defaults = completion_defaults(call->service().options);
  CompletionShape shape;
  if (const auto suffix = fields.text(kCompletionFields["suffix"]); suffix && !suffix->empty()) {
    wrap_infill(fields, prompts, *suffix);
    defaults.stops = DefaultStops::infill;
  }
  Generation generation = read_generation(fields, defaults, model, call->service().options.limits);
  read_choices(fields, shape, generation.stream);
  shape.include_usage = wants_usage(fields);
  if (const auto logprobs = fields.integer(kCompletionFields["logprobs"])) {
    shape.logprobs = true;
    generation.sampling.top_logprobs = static_cast<int32_t>(*logprobs);
  } else if (shape.rows_per_prompt > shape.choices_per_prompt) {
    generation.sampling.top_logprobs = 0;
  }
  read_echo(fields, prompts, model, generation.stream, shape);
  if (fields.failed()) return call->fail(fields.fault());

  for (Prompt& prompt : prompts) {
    submission.prompts.push_back(prompt.ids.empty() ? model.tokenizer->encode(prompt.text)
                                                    : std::move(prompt.ids));
  }
  shape.padded = generation.pad_zero;
  submission.model_name = model_name(fields, model.id);
  submission.endpoint = "completions";
  submission.request_id = new_request_id("cmpl-");
  submission.rows_per_prompt = shape.rows_per_prompt;
  submission.score_prompt = shape.logprobs && !shape.echo.empty();
  submission.generation = std::move(generation);
  if (const auto fault = echo_fault(submission, shape)) return call->fail(*fault);
  auto writer = std::make_unique<CompletionWriter>(
      AnswerHead{submission.request_id, {}, unix_seconds(), submission.model_name}, std::move(shape),
      *model.tokenizer);
  submit(std::move(call), std::move(submission), std::move(writer));
}

}  // namespace fulmar
