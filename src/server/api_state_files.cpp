// A form to a file, and files to a list.
#include "server/api_state_files.h"

#include <algorithm>

#include "net/json_writer.h"
#include "net/multipart.h"
#include "server/admin_job.h"

namespace fulmar {

void upload_state_file(std::shared_ptr<Call> call) {
  const auto parts = parse_form(call->request().headers.get("Content-Type"), call->bytes());
  if (!parts) return call->fail(api_error(parts.error()));
  const auto file =
      std::find_if(parts->begin(), parts->end(), [](const FormPart& part) { return part.name == "file"; });
  if (file == parts->end() || file->filename.empty()) {
    return call->fail(bad_value("the form has no field 'file' with a file name", "file"));
  }
  // The call keeps the bytes for as long as the job runs.
  run_admin_job(call, [call, name = file->filename, content = file->content](ModelAdmin& admin) {
    const Result<StateFile> kept = admin.keep_state_file(name, content);
    if (!kept) return call->fail(api_error(kept.error()));
    JsonWriter json;
    json.begin_object().member("object", "rwkv.state").member("state_id", kept->id).end_object();
    call->respond_json(json.take());
  });
}

void list_state_files(std::shared_ptr<Call> call) {
  const ModelAdmin* admin = call->service().admin;
  JsonWriter json;
  json.begin_object().member("object", "list").key("data").begin_array();
  for (const StateFile& file : admin ? admin->state_files() : std::vector<StateFile>()) {
    json.begin_object()
        .member("state_id", file.id)
        .member("filename", file.filename)
        .member("size_bytes", file.bytes)
        .member("tensor_count", file.tensors)
        .member("created", file.created)
        .end_object();
  }
  call->respond_json(json.end_array().end_object().take());
}

void delete_state_file(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const std::string id = required_text(fields, "state_id");
  if (fields.failed()) return call->fail(fields.fault());
  run_admin_job(call, [call, id](ModelAdmin& admin) {
    const bool gone = admin.drop_state_file(id);
    JsonWriter json;
    json.begin_object().member("object", "rwkv.state").member("state_id", id).member("deleted", gone);
    call->respond_json(json.end_object().take(), gone ? 200 : 404);
  });
}

}  // namespace fulmar
