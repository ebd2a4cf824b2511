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
// Returns {"detail":"<text>"}.
HttpResponse detail_answer(int status, std::string_view text);
// Returns the answer to an unknown path (404) or a wrong method (405).
HttpResponse no_route_answer(int status);
// Returns an error of routing that clients of every API family can read; 503 with Retry-After.
HttpResponse routing_error(int status, std::string_view code, std::string_view text);
// Sets the CORS header fields that every answer carries.
void add_cors(Headers& headers);
HttpResponse with_cors(HttpResponse response);
// Returns a 401 that makes a browser ask for the password.
HttpResponse unauthorized_answer();

std::string workers_json(const Fleet& fleet);
std::string worker_json(const WorkerView& worker);
// Returns the body of GET /api/system (docs/http.md, "Control plane").
std::string system_json(std::string_view version, const std::vector<GpuFigures>& gpus);
std::string logs_json(std::string_view worker_id, const std::vector<std::string>& lines);
std::string model_files_json(bool confined, const std::vector<ModelFile>& files);
// Returns the models of all workers that answer, each id once.
std::string models_json(const Fleet& fleet);
// Returns their ids, in the form of GET /models.
std::string model_names_json(const Fleet& fleet);
// Returns one of them, or an empty text.
std::string model_json(const Fleet& fleet, std::string_view id);
// Returns the workers' metrics and our own gauges.
std::string fleet_metrics(const Fleet& fleet);

}  // namespace fulmar
