// Reads uploaded files from forms and lists the stored ones.
#include "server/admin/state_files.h"

#include <fmt/format.h>

#include <chrono>

#include "base/log.h"
#include "net/json_writer.h"
#include "net/multipart.h"
#include "server/admin/admin_job.h"
#include "server/generate/writer_parts.h"

namespace fulmar {
namespace {

constexpr size_t kLongestNamed = 80;  // bytes of a field's name in an error

// Writes a file's members for lists and uploads.
void write_file(JsonWriter& json, const StateFile& file) {
  constexpr int64_t kMillis = 1000;
  if (!file.owner.empty()) json.member("owner", file.owner);
  json.member("state_id", file.id)
      .member("filename", file.filename)
      .member("original_filename", file.filename)
      .member("size_bytes", file.bytes)
      .member("tensor_count", file.tensors)
      .member("layers", file.layers)
      .member("heads", file.heads)
      .member("head_size", file.head_size)
      .member("created", file.created_ms / kMillis)
      .member("created_ms", file.created_ms)
      .member("uploaded_at",
              time_text(std::chrono::system_clock::time_point(std::chrono::milliseconds(file.created_ms))));
}

// Returns the fault of a part of a form that is not its one file.
ApiError further_part(const FormPart& part) {
  const std::string name = part.name.substr(0, kLongestNamed);
  if (part.name == "file") return bad_value("the form has a second 'file'; wanted one", "file");
  return bad_value(fmt::format("the form has a field '{}'; wanted 'file' alone", name), name,
                   "unsupported_parameter");
}

// Returns the id that a request names in its body, URL or header; all that are given must agree.
std::string named_state(Fields& fields, const HttpRequest& request) {
  std::string id = fields.text(kStateFileFields["state_id"]).value_or(std::string());
  const std::string* query = request.query.find("state_id");
  const std::string_view header = request.headers.get("X-RWKV-State-Id");
  for (const std::string_view other : {query ? std::string_view(*query) : std::string_view(), header}) {
    if (other.empty() || other == id) continue;
    if (!id.empty()) {
      fields.fail(bad_value(fmt::format("'state_id' is '{}' and '{}'; wanted one", id, other), "state_id"));
      return id;
    }
    id = other;
  }
  if (id.empty()) fields.fail(bad_value("'state_id' is required", "state_id"));
  return id;
}

}  // namespace

void upload_state_file(std::shared_ptr<Call> call) {
  const auto parts = parse_form(call->request().headers.get("Content-Type"), call->bytes());
  if (!parts) return call->fail(api_error(parts.error()));
  const FormPart* file = nullptr;
  for (const FormPart& part : *parts) {
    const bool first = part.name == "file" && !file;
    if (!first) return call->fail(further_part(part));
    file = &part;
  }
  if (!file || file->filename.empty()) {
    return call->fail(bad_value("the form has no field 'file' with a file name", "file"));
  }
  // The call keeps the bytes for as long as the job runs.
  run_admin_job(call, [call, name = file->filename, content = file->content](ModelAdmin& admin) {
    const Result<StateFile> kept = admin.keep_state_file(call->owner(), name, content);
    if (!kept) return call->fail(api_error(kept.error()));
    JsonWriter json;
    json.begin_object().member("object", "rwkv.state");
    write_file(json, *kept);
    call->respond_json(json.end_object().take());
  });
}

void list_state_files(std::shared_ptr<Call> call) {
  const ModelAdmin* admin = call->service().admin;
  JsonWriter json = begin_list();
  for (const StateFile& file : admin ? admin->state_files(call->owner()) : std::vector<StateFile>()) {
    json.begin_object();
    write_file(json, file);
    json.end_object();
  }
  call->respond_json(json.end_array().end_object().take());
}

void delete_state_file(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const std::string id = named_state(fields, call->request());
  if (fields.failed()) return call->fail(fields.fault());
  run_admin_job(call, [call, id](ModelAdmin& admin) {
    const Owner& owner = call->owner();
    Result<bool> gone = admin.drop_state_file(owner, id);
    if (gone.ok() && !*gone) gone = admin.drop_state_file(owner, served_id(id));
    if (!gone.ok()) {
      spdlog::error("state '{}' not deleted: {}", id, gone.error().text);
      return call->fail(store_failed("states"));
    }
    JsonWriter json;
    json.begin_object().member("object", "rwkv.state").member("state_id", id).member("deleted", *gone);
    if (!*gone) json.member("error", fmt::format("The state '{}' does not exist", id));
    call->respond_json(json.end_object().take(), *gone ? 200 : 404);
  });
}

}  // namespace fulmar
