#include "app/models/model_pulls.h"

#include <chrono>
#include <cstdlib>

#include "app/core/installed_models.h"
#include "base/caught.h"
#include "base/log.h"
#include "files/checkpoint.h"
#include "files/identify.h"

namespace fulmar {

namespace {
constexpr size_t kMostJobs = 16;
}  // namespace

Result<PullOptions> usual_pull_options(const std::string& endpoint) {
  PullOptions options;
  FULMAR_ASSIGN(options.hub.endpoint, hub_endpoint(endpoint, std::getenv("HF_ENDPOINT")));
  if (const char* token = std::getenv("HF_TOKEN")) options.hub.token = token;
  options.folder = models_folder();
  options.check_model = [](const std::filesystem::path& path) -> Status {
    FULMAR_ASSIGN(const auto checkpoint, open_checkpoint(path));
    FULMAR_TRY(identify(*checkpoint));
    return {};
  };
  return options;
}

ModelPulls::ModelPulls(std::filesystem::path folder, int64_t most_bytes)
    : folder_(std::move(folder)),
      most_bytes_(most_bytes),
      jobs_(kMostJobs),
      thread_("pulls", [this] { work(); }) {}

ModelPulls::~ModelPulls() {
  end();
  thread_.join();
}

void ModelPulls::end() {
  ending_ = true;
  jobs_.close();
}

bool ModelPulls::start(PullJob job) { return jobs_.put(std::move(job)); }

void ModelPulls::work() {
  for (bool last = false; !last;) {
    last = jobs_.closed();
    for (const PullJob& job : jobs_.wait_all(std::chrono::hours(1))) {
      // Caught separately: the pull's outcome is told to its client, and those that wait
      // go on whatever happens there.
      const auto outcome = caught("pull of '" + job.name + "'", [&] { return run(job); });
      const Status told = caught("the answer to it", [&]() -> Status {
        job.done(outcome);
        return {};
      });
      if (!told.ok()) spdlog::error("pull '{}': {}", job.name, told.error().text);
    }
  }
}

Result<std::string> ModelPulls::run(const PullJob& job) const {
  if (ending_) return Error{ErrorKind::unavailable, "Server is shutting down"};
  FULMAR_ASSIGN(const HubName name, parse_hub_name(job.name));
  FULMAR_ASSIGN(PullOptions options, usual_pull_options({}));
  if (!folder_.empty()) options.folder = folder_;
  options.most_bytes = most_bytes_;
  options.hub.stopped = [this] { return ending_.load(); };
  FULMAR_ASSIGN(const Pulled pulled,
                pull(name, options, [&](const std::string& file, int64_t bytes, int64_t size) {
                  return !ending_ && job.progress(file, bytes, size);
                }));
  spdlog::info("model pulled name='{}' to={}", job.name, pulled.model.string());
  return pulled.model.filename().string();
}

}  // namespace fulmar
