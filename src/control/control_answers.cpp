// Writing answers.
#include "control/control_answers.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>

#include "control/metrics_text.h"
#include "net/json.h"

namespace fulmar {
namespace {

// Calls use(model) for each entry of every answering worker's model list, each id once.
template <class Use>
void each_model(const Fleet& fleet, Use use) {
  std::vector<std::string> seen;
  for (const WorkerPtr& worker : fleet) {
    if (!worker->answers()) continue;
    const auto body = parse_json(worker->models_json);
    if (!body.ok()) continue;
    const auto data = get_array(*body, "data");
    if (!data.ok() || *data == nullptr) continue;
    for (const JsonValue& model : **data) {
      const auto id = get_string(model, "id");
      if (!id.ok() || !id->has_value()) continue;
      if (std::find(seen.begin(), seen.end(), **id) != seen.end()) continue;
      seen.push_back(**id);
      use(**id, model);
    }
  }
}

std::string own_metrics(const Fleet& fleet) {
  std::string text = "# HELP fulmar_worker_up Whether the worker answers.\n# TYPE fulmar_worker_up gauge\n";
  for (const WorkerPtr& worker : fleet) {
    text += fmt::format("fulmar_worker_up{{worker=\"{}\"}} {}\n", worker->id, worker->answers() ? 1 : 0);
  }
  text += "# HELP fulmar_worker_restarts_total Starts after the first one.\n";
  text += "# TYPE fulmar_worker_restarts_total counter\n";
  for (const WorkerPtr& worker : fleet) {
    text += fmt::format("fulmar_worker_restarts_total{{worker=\"{}\"}} {}\n", worker->id, worker->restarts);
  }
  text += "# HELP fulmar_worker_in_flight Requests under way to the worker through the control plane.\n";
  text += "# TYPE fulmar_worker_in_flight gauge\n";
  for (const WorkerPtr& worker : fleet) {
    text += fmt::format("fulmar_worker_in_flight{{worker=\"{}\"}} {}\n", worker->id,
                        worker->in_flight->load(std::memory_order_relaxed));
  }
  return text;
}

void write_gpu(JsonWriter& json, const GpuFigures& gpu) {
  json.begin_object()
      .member("index", gpu.index)
      .member("name", gpu.name)
      .member("memory_total_mb", gpu.memory_total_mb)
      .member("memory_used_mb", gpu.memory_used_mb);
  if (gpu.utilization) json.member("utilization", *gpu.utilization);
  if (gpu.temperature) json.member("temperature", *gpu.temperature);
  if (gpu.power) json.member("power", *gpu.power);
  json.end_object();
}

}  // namespace

HttpResponse json_answer(std::string body, int status) {
  HttpResponse response{.status = status};
  response.body = std::move(body);
  return response;
}

HttpResponse detail_answer(int status, std::string_view text) {
  return json_answer("{\"detail\":" + json_quoted(text) + "}", status);
}

HttpResponse no_route_answer(int status) {
  const std::string_view text = status == 405 ? "Method Not Allowed" : "Not Found";
  return json_answer(
      fmt::format(R"({{"error":{{"message":"{0}","type":"invalid_request_error","param":null,"code":"{1}"}},)"
                  R"("detail":"{0}"}})",
                  text, status == 405 ? "method_not_allowed" : "not_found"),
      status);
}

HttpResponse routing_error(int status, std::string_view code, std::string_view text) {
  const std::string_view type = status == 503 ? "unavailable_error" : "server_error";
  JsonWriter json;
  json.begin_object().key("error").begin_object().member("message", text).member("type", type);
  json.key("param").null().member("code", code).end_object().member("detail", text).end_object();
  HttpResponse response = json_answer(json.take(), status);
  if (status == 503) response.headers.set("Retry-After", "1");
  return response;
}

void add_cors(Headers& headers) {
  headers.set("Access-Control-Allow-Origin", "*");
  headers.set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS");
  headers.set("Access-Control-Allow-Headers", "Content-Type, Authorization");
}

HttpResponse with_cors(HttpResponse response) {
  add_cors(response.headers);
  return response;
}

HttpResponse unauthorized_answer() {
  HttpResponse response = detail_answer(401, "Unauthorized: invalid or missing password");
  response.headers.set("WWW-Authenticate", "Basic realm=\"Fulmar\", charset=\"UTF-8\"");
  return response;
}

std::string workers_json(const Fleet& fleet) {
  JsonWriter json;
  json.begin_array();
  for (const WorkerPtr& worker : fleet) write_worker(json, *worker);
  json.end_array();
  return json.take();
}

std::string worker_json(const WorkerView& worker) {
  JsonWriter json;
  write_worker(json, worker);
  return json.take();
}

std::string system_json(std::string_view version, const std::vector<GpuFigures>& gpus) {
  utsname system{};
  ::uname(&system);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  JsonWriter json;
  json.begin_object().key("python").begin_object();
  json.member("version", version).member("executable", "").end_object();
  json.key("os").begin_object();
  json.member("platform", fmt::format("{}-{}-{}", system.sysname, system.release, system.machine))
      .member("machine", system.machine)
      .end_object();
  json.key("env").begin_object().key("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr) {
    json.value(visible);
  } else {
    json.null();
  }
  json.end_object().key("gpus").begin_array();
  for (const GpuFigures& gpu : gpus) write_gpu(json, gpu);
  json.end_array().end_object();
  return json.take();
}

std::string logs_json(std::string_view worker_id, const std::vector<std::string>& lines) {
  JsonWriter json;
  json.begin_object().member("worker_id", worker_id).key("lines").begin_array();
  for (const std::string& line : lines) json.value(line);
  json.end_array().end_object();
  return json.take();
}

std::string model_files_json(bool confined, const std::vector<ModelFile>& files) {
  JsonWriter json;
  json.begin_object().member("confined", confined).key("files").begin_array();
  for (const ModelFile& file : files) {
    json.begin_object().member("path", file.path).member("bytes", file.bytes).end_object();
  }
  json.end_array().end_object();
  return json.take();
}

std::string models_json(const Fleet& fleet) {
  JsonWriter json;
  json.begin_object().member("object", "list").key("data").begin_array();
  each_model(fleet, [&](const std::string&, const JsonValue& model) { json.value(model); });
  json.end_array().end_object();
  return json.take();
}

std::string model_names_json(const Fleet& fleet) {
  JsonWriter json;
  json.begin_array();
  each_model(fleet, [&](const std::string& id, const JsonValue&) {
    json.begin_object().member("object", "models").member("id", id).end_object();
  });
  return json.end_array().take();
}

std::string model_json(const Fleet& fleet, std::string_view id) {
  JsonWriter json;
  each_model(fleet, [&](const std::string& other, const JsonValue& model) {
    if (other == id) json.value(model);
  });
  return json.take();
}

std::string fleet_metrics(const Fleet& fleet) {
  std::vector<LabelledMetrics> sources;
  for (const WorkerPtr& worker : fleet) {
    if (worker->metrics) sources.push_back({worker->id, *worker->metrics});
  }
  return merge_metrics(sources) + own_metrics(fleet);
}

}  // namespace fulmar
