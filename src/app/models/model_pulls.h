// Pulls that clients request from the server: one after another, on a thread of their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/mailbox.h"
#include "base/result.h"
#include "base/thread.h"
#include "hub/pull.h"
#include "server/models/model_admin.h"

namespace fulmar {

// Returns options for the hub of the environment (HF_ENDPOINT, HF_TOKEN) or of
// `endpoint`, and the folder of models.
Result<PullOptions> usual_pull_options(const std::string& endpoint);

class ModelPulls {
 public:
  // Starts the thread. `folder`: the target; empty: the folder of models.
  // `most_bytes`: of one pull.
  ModelPulls(std::filesystem::path folder, int64_t most_bytes);
  // Cancels the running pull and answers those that wait.
  ~ModelPulls();

  bool start(PullJob job);  // false: too many wait, or it has ended
  // Cancels the running pull, answers those that wait, and accepts no more. From any thread; does not wait.
  void end();

 private:
  void work();
  Result<std::string> run(const PullJob& job) const;

  const std::filesystem::path folder_;
  const int64_t most_bytes_;
  std::atomic<bool> ending_{false};
  Mailbox<PullJob> jobs_;
  Thread thread_;
};

}  // namespace fulmar
