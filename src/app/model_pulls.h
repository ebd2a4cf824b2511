// Pulls that clients ask the server for: one after another, on a thread of their own.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "base/mailbox.h"
#include "base/result.h"
#include "hub/pull.h"
#include "server/model_admin.h"

namespace fulmar {

// The hub of the environment (HF_ENDPOINT, HF_TOKEN) or of `endpoint`, and the folder of models.
Result<PullOptions> usual_pull_options(const std::string& endpoint);

class ModelPulls {
 public:
  // `folder`: where they go; empty: the folder of models.
  explicit ModelPulls(std::filesystem::path folder);
  // Calls the pull off that runs; those that wait are told so.
  ~ModelPulls();

  bool start(PullJob job);  // false: too many wait

 private:
  void work();
  Result<std::string> run(const PullJob& job) const;

  const std::filesystem::path folder_;
  std::atomic<bool> ending_{false};
  Mailbox<PullJob> jobs_;
  std::thread thread_;
};

}  // namespace fulmar
