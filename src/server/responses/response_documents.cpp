#include "server/responses/response_documents.h"

#include <utility>

#include "net/json.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr std::string_view kJobPrefix = "job:";

// Makes the error for a document that exists but cannot be read; it must not be taken for a missing one.
Error unreadable(const Document& document) {
  return {ErrorKind::corrupt, "the document '" + document.id + "' holds something else than was stored"};
}

}  // namespace

bool is_job(std::string_view id) { return id.starts_with(kJobPrefix); }
std::string job_document_id(const std::string& response_id) { return std::string(kJobPrefix) + response_id; }

Document document_of(const StoredResponse& response) {
  JsonWriter json;
  json.begin_object()
      .member("created", response.created)
      .member("json", response.json)
      .member("tools", response.tools)
      .member("input", response.input)
      .key("calls")
      .begin_array();
  for (const std::string& call : response.calls) json.value(call);
  json.end_array();
  if (!response.cut.empty()) json.member("cut", response.cut);
  if (!response.adapter.empty()) json.member("adapter", response.adapter);
  json.end_object();
  return {.id = response.id,
          .owner = response.owner,
          .created = response.created,
          .text = json.take(),
          .label = response.model};
}

Result<StoredResponse> response_of(Document document) {
  const auto body = parse_json(document.text, {.max_bytes = document.text.size()});
  if (!body.ok()) return unreadable(document);
  const auto json = get_string(*body, "json"), tools = get_string(*body, "tools");
  const auto input = get_string(*body, "input"), cut = get_string(*body, "cut");
  const auto adapter = get_string(*body, "adapter");
  const auto created = get_int(*body, "created");
  const auto calls = get_array(*body, "calls");
  if (!json.ok() || !tools.ok() || !input.ok() || !cut.ok() || !adapter.ok() || !calls.ok() || !*calls) {
    return unreadable(document);
  }
  StoredResponse response = response_facts(std::move(document));
  response.json = json->value_or("");
  response.tools = tools->value_or("");
  response.input = input->value_or("[]");
  response.cut = cut->value_or("");
  response.adapter = adapter->value_or("");
  if (created.ok() && *created) response.created = **created;
  for (const JsonValue& call : **calls) {
    if (call.is_string()) response.calls.push_back(call.as_string());
  }
  return response;
}

Document document_of(const ResponseJob& job) {
  JsonWriter json;
  json.begin_object().member("request", job.request).member("answer", job.answer);
  json.member("created", job.created).end_object();
  return {.id = job_document_id(job.id),
          .owner = job.owner,
          .created = job.created,
          .text = json.take(),
          .lasting = true,
          .mark = job.attempts};
}

Result<ResponseJob> job_of(const Document& document) {
  const auto body = parse_json(document.text, {.max_bytes = document.text.size() + 1});
  if (!body.ok()) return unreadable(document);
  const auto request = get_string(*body, "request"), answer = get_string(*body, "answer");
  const auto created = get_int(*body, "created");
  if (!request.ok() || !*request || !answer.ok() || !*answer || !created.ok()) return unreadable(document);
  return ResponseJob{.id = document.id.substr(kJobPrefix.size()),
                     .request = request->value_or(""),
                     .answer = answer->value_or(""),
                     .created = created->value_or(document.created),
                     .attempts = document.mark,
                     .owner = document.owner};
}

int64_t bytes_of(const StoredResponse& response) {
  size_t sum = response.json.size() + response.tools.size() + response.input.size();
  for (const std::string& call : response.calls) sum += call.size();
  return static_cast<int64_t>(sum);
}

StoredResponse response_facts(Document document) {
  return {.id = std::move(document.id),
          .model = std::move(document.label),
          .json = {},
          .created = document.created,
          .owner = std::move(document.owner)};
}

ResponseJob job_facts(Document document) {
  return {.id = document.id.substr(kJobPrefix.size()),
          .request = {},
          .answer = {},
          .created = document.created,
          .attempts = document.mark,
          .owner = std::move(document.owner)};
}

}  // namespace fulmar
