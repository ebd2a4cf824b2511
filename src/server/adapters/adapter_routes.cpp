#include "server/adapters/adapter_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <utility>

#include "adapters/adapter_flag.h"
#include "net/json_writer.h"
#include "net/multipart.h"
#include "server/adapters/adapter_registry.h"
#include "server/adapters/registering.h"
#include "server/core/call.h"
#include "server/core/fields.h"

namespace fulmar {
namespace {

constexpr size_t kMostMetadata = size_t{8} << 20;
constexpr std::string_view kMetadata = "checkpoint.json";

// What a form holds.
struct AdapterForms {
  NewAdapter adapter;
  AdapterOptions options;
  std::vector<NamedBytes> files;
};

std::optional<ApiError> read_number(const FormPart& part, std::optional<double>& number) {
  if (number) return bad_value(fmt::format("the form has two fields '{}'; wanted one", part.name), part.name);
  double value = 0;
  const char* const end = part.content.data() + part.content.size();
  const auto parsed = std::from_chars(part.content.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return bad_value(fmt::format("'{}' is {}; wanted a number", part.name,
                                 describe(JsonValue(std::string(part.content.substr(0, 80))))),
                     part.name);
  }
  number = value;
  return std::nullopt;
}

std::optional<ApiError> read_file_part(const FormPart& part, AdapterForms& form) {
  const std::string name = std::filesystem::path(part.filename).filename().string();
  const auto twice = [&](const NamedBytes& other) {
    return other.name.ends_with(".json") == name.ends_with(".json");
  };
  if (form.files.size() == 2) return bad_value("upload requires one PTH and optional legacy checkpoint.json");
  if (std::any_of(form.files.begin(), form.files.end(), twice)) return bad_value("duplicate upload file");
  if (name == kMetadata && part.content.size() > kMostMetadata) {
    return bad_value("checkpoint metadata too large");
  }
  form.files.push_back({name, part.content});
  return std::nullopt;
}

std::optional<ApiError> read_part(const FormPart& part, AdapterForms& form) {
  if (!part.filename.empty()) return read_file_part(part, form);
  if (part.name == "alpha") return read_number(part, form.options.alpha);
  if (part.name == "scale") return read_number(part, form.options.scale);
  const bool id = part.name == "adapter_id";
  if (!id && part.name != "base_model_name") {
    const std::string name = part.name.substr(0, 80);
    return bad_value(
        fmt::format("the form has a field '{}'; wanted adapter_id, alpha, scale, base_model_name "
                    "and a file",
                    name),
        name, "unsupported_parameter");
  }
  std::string& text = id ? form.adapter.id : form.adapter.base;
  if (!text.empty()) return bad_value(fmt::format("the form has two fields '{}'; wanted one", part.name));
  text = part.content;
  return std::nullopt;
}

void answer_added(Call& call, const std::string& id, std::variant<std::string, ApiError> added) {
  if (auto* fault = std::get_if<ApiError>(&added)) {
    if (fault->status == 404) fault->status = 400;  // as rwkv_lightning answers it
    return call.fail(*fault);
  }
  JsonWriter json;
  json.begin_object().member("version", std::get<std::string>(added)).member("adapter_id", id).end_object();
  call.respond_json(json.take());
}

void register_upload(Call& call) {
  const auto parts = parse_form(call.request().headers.get("Content-Type"), call.bytes());
  if (!parts) return call.fail(api_error(parts.error()));
  AdapterForms form;
  for (const FormPart& part : *parts) {
    if (const auto fault = read_part(part, form)) return call.fail(*fault);
  }
  if (form.adapter.id.empty()) return call.fail(bad_value("missing adapter_id", "adapter_id"));
  const bool any = std::any_of(form.files.begin(), form.files.end(),
                               [](const NamedBytes& file) { return !file.name.ends_with(".json"); });
  if (!any) return call.fail(bad_value("missing adapter PTH"));
  const std::string id = form.adapter.id;
  form.adapter.owner = call.owner().name;
  for (const NamedBytes& file : form.files) {
    if (!file.name.ends_with(".json")) form.adapter.root = file.name;
  }
  answer_added(
      call, id,
      register_files(*call.service().families.adapters, std::move(form.adapter), form.options, form.files));
}

void register_named(Call& call) {
  Fields fields(call.body());
  NewAdapter adapter;
  AdapterOptions options;
  adapter.id = fields.text(kNewAdapterFields["adapter_id"]).value_or(std::string());
  adapter.owner = call.owner().name;
  adapter.base = fields.text(kNewAdapterFields["base_model_name"]).value_or(std::string());
  adapter.root = fields.text(kNewAdapterFields["path"]).value_or(std::string());
  options.alpha = fields.number(kNewAdapterFields["alpha"]);
  options.scale = fields.number(kNewAdapterFields["scale"]);
  if (adapter.id.empty()) fields.fail(bad_value("missing adapter_id", "adapter_id"));
  if (adapter.root.empty()) fields.fail(bad_value("'path' is required, or a form with a file", "path"));
  if (fields.failed()) return call.fail(fields.fault());
  const std::string id = adapter.id;
  answer_added(call, id, register_below_root(*call.service().families.adapters, std::move(adapter), options));
}

// Writes what a package says of itself, or of other forms what there is to say.
void write_manifest(JsonWriter& json, const AdapterContent& content) {
  json.key("manifest");
  if (!content.manifest.empty()) {
    json.raw(content.manifest);
    return;
  }
  const Adapter& adapter = content.adapter;
  json.begin_object().key("method");
  adapter.deltas.empty() ? json.null() : json.value(name_of(adapter.deltas.front().kind));
  json.member("rank", adapter.most_rank()).member("base_fingerprint", adapter.base_fingerprint).end_object();
}

void write_version(JsonWriter& json, const AdapterEntry& entry, const AdapterContent& content) {
  json.begin_object().member("id", entry.id).member("version", content.version);
  write_manifest(json, content);
  json.member("number", entry.number).member("parent", entry.base);
  json.member("form", name_of(content.adapter.form)).member("rank", content.adapter.most_rank());
  const std::optional<double> scale = content.common_scale();
  json.key("scale");
  scale ? json.value(*scale) : json.null();
  json.member("bytes", content.adapter.bytes());
  json.member("base", content.adapter.base_fingerprint.empty() ? "unverified" : "verified");
  if (!entry.owner.empty()) json.member("owner", entry.owner);
  json.end_object();
}

}  // namespace

void register_adapter(std::shared_ptr<Call> call) {
  const bool form = call->request().headers.get("Content-Type").starts_with("multipart/");
  form ? register_upload(*call) : register_named(*call);
}

void list_adapters(std::shared_ptr<Call> call) {
  const AdapterRegistry& registry = *call->service().families.adapters;
  JsonWriter json;
  json.begin_object().key("data").begin_array();
  for (const AdapterEntry& entry : registry.list(call->owner())) {
    for (const AdapterContentPtr& content : entry.versions) write_version(json, entry, *content);
  }
  const AdapterFigures figures = registry.figures();
  json.end_array()
      .member("ram_hits", figures.host_hits)
      .member("gpu_hits", figures.hits)
      .member("gpu_misses", figures.misses)
      .member("uploads", figures.loads)
      .key("h2d_ms")
      .raw(fmt::format("{:#}", figures.load_ms))
      .member("ram_bytes", figures.host_bytes)
      .member("gpu_bytes", figures.bytes)
      .member("gpu_peak_bytes", figures.peak_bytes);
  call->respond_json(json.end_object().take());
}

void forget_adapter(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const std::string id = fields.text(kForgetAdapterFields["adapter_id"]).value_or(std::string());
  const std::string version = fields.text(kForgetAdapterFields["adapter_version"]).value_or(std::string());
  if (id.empty()) fields.fail(bad_value("missing adapter_id", "adapter_id"));
  if (fields.failed()) return call->fail(fields.fault());
  call->service().families.adapters->remove(call->owner(), id, version);
  call->respond_json(R"({"deleted":true})");
}

}  // namespace fulmar
