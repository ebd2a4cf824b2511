// Ollama's routes about models: lists them, describes them and pulls one from a hub.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/sha256.h"
#include "net/json_writer.h"
#include "server/core/call.h"
#include "server/core/fields.h"
#include "server/core/framing.h"
#include "server/generate/named_model.h"
#include "server/generate/writer_parts.h"
#include "server/models/model_admin.h"
#include "server/ollama/ollama.h"
#include "text/chat_template.h"

namespace fulmar {
namespace {

// The level of the API, which clients compare before they use its newer parts.
constexpr std::string_view kApiLevel = "0.12.6";
constexpr std::string_view kLatest = ":latest";  // the tag of names without one
constexpr std::string_view kNever = "2318-01-01T00:00:00Z";

std::string size_text(int64_t parameters) {
  if (parameters >= 100'000'000) return fmt::format("{:.1f}B", static_cast<double>(parameters) / 1e9);
  return fmt::format("{:.1f}M", static_cast<double>(parameters) / 1e6);
}

void write_details(JsonWriter& json, const ServedModel& model) {
  json.key("details").begin_object().member("parent_model", "").member("format", "safetensors");
  json.member("family", model.architecture)
      .key("families")
      .begin_array()
      .value(model.architecture)
      .end_array();
  json.member("parameter_size", size_text(model.parameters))
      .member("quantization_level", model.runtime)
      .end_object();
}

std::string time_of(int64_t unix_seconds) {
  return time_text(std::chrono::system_clock::time_point(std::chrono::seconds(unix_seconds)));
}

// Writes a model's entry in lists. The digest identifies the model; it is not a checksum of its file.
void write_entry(JsonWriter& json, const ServedModel& model) {
  json.member("name", model.id).member("model", model.id).member("size", model.weight_bytes);
  json.member("digest", sha256_hex(fmt::format("{} {} {}", model.path, model.weight_bytes, model.created)));
  write_details(json, model);
}

void write_listed(JsonWriter& json, const ServedModel& model) {
  json.begin_object();
  write_entry(json, model);
  json.member("modified_at", time_of(model.created)).end_object();
}

// Writes the installed models that are not loaded.
void write_installed(JsonWriter& json, const ModelAdmin& admin, const std::vector<ServedModelPtr>& loaded) {
  for (const InstalledModel& installed : admin.installed()) {
    const bool known = std::any_of(loaded.begin(), loaded.end(), [&](const ServedModelPtr& model) {
      return model->id == installed.id || model->path == installed.path;
    });
    if (known) continue;
    ServedModel model;
    if (installed.facts) model = *installed.facts;
    model.id = installed.id, model.path = installed.path;
    model.weight_bytes = installed.bytes, model.created = installed.created;
    write_listed(json, model);
  }
}

// Finds a model by name: a loaded one, else an installed one as its files describe it.
ServedModelPtr find_described(const Call& call, const std::string& name) {
  const Service& service = call.service();
  ServedModelPtr model = named_model(service, call.owner(), name, true);
  if (model || !service.admin) return model;
  const auto described = service.admin->describe_installed(name);
  return described ? *described : nullptr;
}

// Tells a client how a pull goes: a line whenever a file is a hundredth further.
class PullReport {
 public:
  PullReport(std::shared_ptr<Call> call, bool stream) : call_(std::move(call)), stream_(stream) {
    if (!stream_) return;
    HttpResponse head;
    head.content_type = content_type_of(Framing::lines);
    call_->add_common_headers(head.headers);
    call_->exchange()->begin_stream(std::move(head));
    write_status("pulling manifest");
  }

  // Reports progress. Returns false once the client has gone: the next pull continues from what has arrived.
  bool progress(const std::string& file, int64_t bytes, int64_t size) {
    if (call_->exchange()->disconnected() || call_->service().draining) return false;
    const int64_t percent = size > 0 ? bytes * 100 / size : 0;
    if (!stream_ || (file == file_ && percent == percent_)) return true;
    file_ = file, percent_ = percent;
    JsonWriter json;
    json.begin_object().member("status", "pulling " + file).member("digest", "sha256:" + sha256_hex(file));
    json.member("total", std::max<int64_t>(size, 0)).member("completed", bytes);
    call_->exchange()->write(framed(Framing::lines, json.end_object().take()));
    return true;
  }

  // Ends the answer. `name`: the model's name here. Ollama's clients read only the status.
  void finish(const Result<std::string>& name) {
    JsonWriter json;
    if (name.ok()) json.begin_object().member("status", "success").member("model", *name).end_object();
    if (!stream_) {
      if (!name.ok()) return call_->fail(api_error(name.error()));
      return call_->respond_json(json.take());
    }
    call_->exchange()->write(framed(
        Framing::lines, name.ok() ? json.take() : error_json(Family::native, api_error(name.error()))));
    call_->count(name.ok() ? Outcome::ok : Outcome::server_error);
    call_->exchange()->end();
  }

 private:
  void write_status(std::string_view text) {
    JsonWriter json;
    call_->exchange()->write(
        framed(Framing::lines, json.begin_object().member("status", text).end_object().take()));
  }

  const std::shared_ptr<Call> call_;
  const bool stream_;
  std::string file_;
  int64_t percent_ = -1;
};

}  // namespace

void ollama_version(std::shared_ptr<Call> call) {
  JsonWriter json;
  call->respond_json(json.begin_object().member("version", kApiLevel).end_object().take());
}

void ollama_tags(std::shared_ptr<Call> call) {
  const Service& service = call->service();
  const std::vector<ServedModelPtr> loaded = service.models.all();
  JsonWriter json;
  json.begin_object().key("models").begin_array();
  for (const ServedModelPtr& model : loaded) write_listed(json, *model);
  if (service.admin) write_installed(json, *service.admin, loaded);
  call->respond_json(json.end_array().end_object().take());
}

void ollama_running(std::shared_ptr<Call> call) {
  JsonWriter json;
  json.begin_object().key("models").begin_array();
  for (const ServedModelPtr& model : call->service().models.all()) {
    json.begin_object();
    write_entry(json, *model);
    json.member("expires_at", kNever).member("size_vram", model->device_memory ? model->weight_bytes : 0);
    json.end_object();
  }
  call->respond_json(json.end_array().end_object().take());
}

void ollama_show(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const auto named = fields.text(kOllamaNameFields["model"]);
  const std::string name = named ? *named : fields.text(kOllamaNameFields["name"]).value_or(std::string());
  const ServedModelPtr model = find_described(*call, name);
  if (!model) fields.fail({404, fmt::format("model '{}' not found", name), "model", "model_not_found", {}});
  if (fields.failed()) return call->fail(fields.fault());
  const PromptTemplate& form = *model->prompt_template;
  std::string parameters;
  for (const std::string_view stop : form.chat_stops) {
    parameters += fmt::format("stop {}\n", json_quoted(stop));
  }
  JsonWriter json;
  json.begin_object().member("modelfile", fmt::format("# served by Fulmar\nFROM {}\n", model->id));
  json.member("parameters", parameters);
  json.member("template", render_utterance("{{ .Prompt }}", form.unasked, form));
  write_details(json, *model);
  json.key("model_info").begin_object().member("general.architecture", model->architecture);
  json.member("general.parameter_count", model->parameters);
  json.member(model->architecture + ".vocab_size", model->vocabulary).end_object();
  json.key("capabilities").begin_array();
  for (const std::string_view capability : {"completion", "tools", "insert", "embedding"})
    json.value(capability);
  if (model->thinks) json.value("thinking");
  json.end_array().member("modified_at", time_of(model->created));
  call->respond_json(json.end_object().take());
}

void ollama_pull(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const auto named = fields.text(kOllamaPullFields["model"]);
  std::string name = named ? *named : fields.text(kOllamaPullFields["name"]).value_or(std::string());
  if (name.ends_with(kLatest)) name.resize(name.size() - kLatest.size());
  const bool stream = fields.flag(kOllamaPullFields["stream"]);
  ModelAdmin* admin = call->service().admin;
  if (name.empty()) fields.fail(bad_value("'model' is required: OWNER/NAME or OWNER/NAME:FILE", "model"));
  if (!admin) fields.fail({501, "This server does not get models", {}, "unsupported", {}});
  if (fields.failed()) return call->fail(fields.fault());
  if (const Status may = admin->check_pull(name); !may.ok()) return call->fail(api_error(may.error()));
  const auto report = std::make_shared<PullReport>(call, stream);
  const PullJob job{name,
                    [report](const std::string& file, int64_t bytes, int64_t size) {
                      return report->progress(file, bytes, size);
                    },
                    [report](const Result<std::string>& model) { report->finish(model); }};
  if (!admin->start_pull(job)) {
    report->finish(Error{ErrorKind::unavailable, "too many pulls wait; try again later"});
  }
}

}  // namespace fulmar
