#include "app/model_pulls.h"

#include <chrono>
#include <cstdlib>

#include "app/installed_models.h"
#include "base/log.h"

namespace fulmar {

namespace {
constexpr size_t kMostJobs = 16;
}  // namespace

Result<PullOptions> usual_pull_options(const std::string& endpoint) {
  PullOptions options;
  FULMAR_ASSIGN(options.hub.endpoint, hub_endpoint(endpoint, std::getenv("HF_ENDPOINT")));
  if (const char* token = std::getenv("HF_TOKEN")) options.hub.token = token;
  options.folder = models_folder();
  return options;
}

ModelPulls::ModelPulls(std::filesystem::path folder)
    : folder_(std::move(folder)), jobs_(kMostJobs), thread_([this] { work(); }) {}

ModelPulls::~ModelPulls() {
  ending_ = true;
  jobs_.close();
  thread_.join();
}

bool ModelPulls::start(PullJob job) { return jobs_.put(std::move(job)); }

void ModelPulls::work() {
  for (bool last = false; !last;) {
    last = jobs_.closed();
    for (const PullJob& job : jobs_.wait_all(std::chrono::hours(1))) job.done(run(job));
  }
}

Result<std::string> ModelPulls::run(const PullJob& job) const {
  if (ending_) return Error{ErrorKind::unavailable, "Server is shutting down"};
  FULMAR_ASSIGN(const HubName name, parse_hub_name(job.name));
  FULMAR_ASSIGN(PullOptions options, usual_pull_options({}));
  if (!folder_.empty()) options.folder = folder_;
  FULMAR_ASSIGN(const Pulled pulled,
                pull(name, options, [&](const std::string& file, int64_t bytes, int64_t size) {
                  return !ending_ && job.progress(file, bytes, size);
                }));
  spdlog::info("model pulled name='{}' to={}", job.name, pulled.model.string());
  return pulled.model.filename().string();
}

}  // namespace fulmar
