// Keeping and forgetting stored responses.
#include "server/response_store.h"

#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "net/json.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

// Responses that wait to be written; more are dropped, since the disk does not keep up.
constexpr size_t kMostWaiting = size_t{64} << 20;

std::unique_ptr<DocumentStore> in_memory() {
  auto documents = open_document_store({}, {.lifetime = ResponseStore::kSeconds});
  FULMAR_CHECK(documents.ok());
  return std::move(*documents);
}

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
  json.end_array().end_object();
  return {response.id, response.model, response.created, json.take()};
}

std::optional<StoredResponse> response_of(Document document) {
  const auto body = parse_json(document.text, {.max_bytes = document.text.size()});
  if (!body.ok()) return std::nullopt;
  const auto json = get_string(*body, "json"), tools = get_string(*body, "tools");
  const auto input = get_string(*body, "input");
  const auto created = get_int(*body, "created");
  const auto calls = get_array(*body, "calls");
  if (!json.ok() || !tools.ok() || !input.ok() || !calls.ok() || !*calls) return std::nullopt;
  StoredResponse response{.id = std::move(document.id),
                          .model = std::move(document.owner),
                          .json = json->value_or(""),
                          .created = created.ok() ? created->value_or(document.created) : document.created,
                          .tools = tools->value_or(""),
                          .input = input->value_or("[]")};
  for (const JsonValue& call : **calls) {
    if (call.is_string()) response.calls.push_back(call.as_string());
  }
  return response;
}

// Jobs lie beside the responses, under ids that none of those has.
constexpr std::string_view kJobPrefix = "job:";
constexpr const char* kJobOwner = "background";

bool is_job(std::string_view id) { return id.starts_with(kJobPrefix); }
std::string job_document(const std::string& id) { return std::string(kJobPrefix) + id; }

Document document_of(const ResponseJob& job) {
  JsonWriter json;
  json.begin_object().member("request", job.request).member("answer", job.answer);
  json.member("created", job.created);
  json.member("attempts", job.attempts).end_object();
  return {job_document(job.id), kJobOwner, job.created, json.take()};
}

std::optional<ResponseJob> job_of(const Document& document) {
  const auto body = parse_json(document.text, {.max_bytes = document.text.size() + 1});
  if (!body.ok()) return std::nullopt;
  const auto request = get_string(*body, "request"), answer = get_string(*body, "answer");
  const auto attempts = get_int(*body, "attempts"), created = get_int(*body, "created");
  if (!request.ok() || !answer.ok() || !attempts.ok() || !created.ok()) return std::nullopt;
  return ResponseJob{.id = document.id.substr(kJobPrefix.size()),
                     .request = request->value_or(""),
                     .answer = answer->value_or(""),
                     .created = created->value_or(document.created),
                     .attempts = attempts->value_or(0)};
}

StoredResponse facts_of(Document document) {
  return {.id = std::move(document.id), .model = std::move(document.owner), .created = document.created};
}

size_t bytes_of(const StoredResponse& response) {
  return response.json.size() + response.tools.size() + response.input.size();
}

}  // namespace

ResponseStore::ResponseStore(std::unique_ptr<DocumentStore> documents)
    : documents_(documents ? std::move(documents) : in_memory()) {}

ResponseStore::~ResponseStore() { writer_.finish(); }

void ResponseStore::put(StoredResponse response) {
  const size_t bytes = bytes_of(response);
  std::string id = response.id;
  {
    std::lock_guard lock(waiting_mutex_);
    if (bytes > static_cast<size_t>(kMostBytes) || waiting_bytes_ + bytes > kMostWaiting) {
      spdlog::warn("response not stored id={} bytes={} waiting={}", id, bytes, waiting_bytes_);
      return;
    }
    waiting_bytes_ += bytes;
    waiting_[id] = std::move(response);
  }
  writer_.post([this, id = std::move(id)] { write(id); });
}

void ResponseStore::write(const std::string& id) {
  std::lock_guard writing(writing_);
  write_locked(id);
}

void ResponseStore::write_locked(const std::string& id) {
  std::optional<Document> document;
  {
    std::lock_guard lock(waiting_mutex_);
    const auto found = waiting_.find(id);
    if (found != waiting_.end()) document = document_of(found->second);
  }
  if (!document) return;  // taken meanwhile
  document->created = documents_->now();
  if (const Status stored = documents_->put(*document); !stored.ok()) {
    spdlog::error("response not stored id={}: {}", id, stored.error().text);
  }
  std::lock_guard lock(waiting_mutex_);
  waiting_bytes_ -= bytes_of(waiting_[id]);
  waiting_.erase(id);
}

Status ResponseStore::put_job(const ResponseJob& job) {
  Document document = document_of(job);
  document.created = documents_->now();
  std::lock_guard writing(writing_);
  return documents_->put(document);
}

void ResponseStore::drop_job(const std::string& id) {
  writer_.post([this, id] {
    std::lock_guard writing(writing_);
    if (const auto gone = documents_->take(job_document(id)); !gone.ok()) {
      spdlog::error("response in the background not removed id={}: {}", id, gone.error().text);
    }
  });
}

std::vector<ResponseJob> ResponseStore::jobs() {
  std::vector<ResponseJob> jobs;
  const auto documents = documents_->of_owner(kJobOwner);
  if (!documents.ok()) spdlog::error("responses in the background not read: {}", documents.error().text);
  for (const Document& document : documents.ok() ? *documents : std::vector<Document>()) {
    if (auto job = job_of(document)) jobs.push_back(std::move(*job));
  }
  return jobs;
}

std::optional<StoredResponse> ResponseStore::find(const std::string& id) {
  if (is_job(id)) return std::nullopt;
  {
    std::lock_guard lock(waiting_mutex_);
    if (const auto found = waiting_.find(id); found != waiting_.end()) return found->second;
  }
  auto document = documents_->find(id);
  if (!document.ok()) spdlog::error("response not read id={}: {}", id, document.error().text);
  if (!document.ok() || !*document) return std::nullopt;
  return response_of(std::move(**document));
}

std::optional<StoredResponse> ResponseStore::take(const std::string& id) {
  if (is_job(id)) return std::nullopt;
  std::lock_guard writing(writing_);
  std::optional<StoredResponse> taken;
  {
    std::lock_guard lock(waiting_mutex_);
    if (const auto found = waiting_.find(id); found != waiting_.end()) {
      waiting_bytes_ -= bytes_of(found->second);
      taken = std::move(found->second);
      waiting_.erase(found);
    }
  }
  if (taken) return taken;
  auto document = documents_->take(id);
  if (!document.ok()) spdlog::error("response not removed id={}: {}", id, document.error().text);
  if (!document.ok() || !*document) return std::nullopt;
  return facts_of(std::move(**document));
}

std::vector<StoredResponse> ResponseStore::take_expired() {
  std::vector<StoredResponse> expired;
  std::lock_guard writing(writing_);
  std::vector<std::string> waiting;
  {
    std::lock_guard lock(waiting_mutex_);
    for (const auto& [id, response] : waiting_) waiting.push_back(id);
  }
  for (const std::string& id : waiting) write_locked(id);
  auto gone = documents_->take_surplus(documents_->now() - kSeconds, kMostBytes);
  if (!gone.ok()) {
    spdlog::error("old responses not removed: {}", gone.error().text);
    return expired;
  }
  for (Document& document : *gone) expired.push_back(facts_of(std::move(document)));
  return expired;
}

}  // namespace fulmar
