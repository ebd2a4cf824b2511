// Shared pieces of answers.
#include "server/generate/writer_parts.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "engine/ask.h"

namespace fulmar {
namespace {

// Returns the finish reason. "abort" is what other servers tell OpenAI's clients of an answer that was cut.
std::string_view finish_text(FinishReason reason, Family family) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
    case FinishReason::paused:
    case FinishReason::stopping:
      return family == Family::openai ? "abort" : cut_text(reason);
    case FinishReason::failed:
      break;
  }
  return "error";
}

}  // namespace

std::string_view cut_text(FinishReason reason) {
  switch (reason) {
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::paused:
      return "paused";
    case FinishReason::stopping:
      return "server_stopping";
    case FinishReason::stop:
    case FinishReason::length:
    case FinishReason::failed:
      break;
  }
  return {};
}

void write_head(JsonWriter& json, const AnswerHead& head) {
  json.begin_object()
      .member("id", head.id)
      .member("object", head.object)
      .member("created", head.created)
      .member("model", head.model);
  if (!head.service_tier.empty()) json.member("service_tier", head.service_tier);
}

JsonWriter begin_list() {
  JsonWriter json;
  json.begin_object().member("object", "list").key("data").begin_array();
  return json;
}

void write_adapter(JsonWriter& json, const std::shared_ptr<const AdapterLabel>& label) {
  constexpr size_t kShownDigits = 8;
  if (!label) return;
  json.key("adapter").begin_object().member("id", label->id);
  json.member("version", std::string_view(label->version).substr(0, kShownDigits));
  json.member("strength", label->strength).end_object();
}

void write_usage(JsonWriter& json, const Totals& totals) {
  json.key("usage")
      .begin_object()
      .member("prompt_tokens", totals.prompt_tokens)
      .member("completion_tokens", totals.completion_tokens)
      .member("total_tokens", totals.prompt_tokens + totals.completion_tokens);
  if (totals.cached_tokens > 0) {
    json.key("prompt_tokens_details")
        .begin_object()
        .member("cached_tokens", totals.cached_tokens)
        .end_object();
  }
  const bool drafted = totals.accepted_draft_tokens + totals.rejected_draft_tokens > 0;
  if (totals.reasoning_tokens > 0 || drafted) {
    json.key("completion_tokens_details").begin_object();
    if (totals.reasoning_tokens > 0) json.member("reasoning_tokens", totals.reasoning_tokens);
    if (drafted) {
      json.member("accepted_prediction_tokens", totals.accepted_draft_tokens)
          .member("rejected_prediction_tokens", totals.rejected_draft_tokens);
    }
    json.end_object();
  }
  write_adapter(json, totals.adapter);
  json.end_object();
}

std::string usage_event(const AnswerHead& head, const Totals& totals) {
  JsonWriter json;
  write_head(json, head);
  json.key("choices").begin_array().end_array();
  write_usage(json, totals);
  return json.end_object().take();
}

JsonWriter begin_choice_event(const AnswerHead& head) {
  JsonWriter json;
  write_head(json, head);
  json.key("choices").begin_array().begin_object();
  return json;
}

std::string end_choice_event(JsonWriter& json, bool usage_later) {
  json.end_object().end_array();
  if (usage_later) json.key("usage").null();
  return json.end_object().take();
}

void write_ending_or_null(JsonWriter& json, const Ending* ending, Family family) {
  if (ending) {
    write_ending(json, *ending, family);
  } else {
    json.key("finish_reason").null();
  }
}

void write_ending(JsonWriter& json, const Ending& ending, Family family) {
  json.member("finish_reason", finish_text(ending.reason, family));
  if (ending.stop_text) {
    json.member("stop_reason", *ending.stop_text);
  } else if (ending.stop_id) {
    json.member("stop_reason", *ending.stop_id);
  } else if (is_cut(ending.reason)) {
    json.member("stop_reason", cut_text(ending.reason));
  }
}

std::string time_text(std::chrono::system_clock::time_point at) {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(at)),
                     micros % 1'000'000);
}

}  // namespace fulmar
