// The bodies of the control plane's own answers. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "control/gpu_list.h"
#include "control/worker_view.h"
#include "net/http_message.h"

namespace fulmar {

HttpResponse json_answer(std::string body, int status = 200);
// {"detail":"<text>"}
HttpResponse detail_answer(int status, std::string_view text);
// The answer to an unknown path (404) or a wrong method (405).
HttpResponse no_route_answer(int status);
// A failure of routing, readable for clients of every family; 503 with Retry-After.
HttpResponse routing_error(int status, std::string_view code, std::string_view text);
// What every response carries (http-api.md 2.2).
void add_cors(Headers& headers);
HttpResponse with_cors(HttpResponse response);
// 401, with what makes a browser ask for the password.
HttpResponse unauthorized_answer();

std::string workers_json(const Fleet& fleet);
std::string worker_json(const WorkerView& worker);
// docs/http.md, "Control plane"
std::string system_json(std::string_view version, const std::vector<GpuFigures>& gpus);
std::string logs_json(std::string_view worker_id, const std::vector<std::string>& lines);
std::string model_files_json(bool confined, const std::vector<ModelFile>& files);
// The models of all workers that answer, each id once.
std::string models_json(const Fleet& fleet);
// Their ids, in the form of GET /models.
std::string model_names_json(const Fleet& fleet);
// One of them, or an empty text.
std::string model_json(const Fleet& fleet, std::string_view id);
// The workers' metrics and our own gauges.
std::string fleet_metrics(const Fleet& fleet);

}  // namespace fulmar
