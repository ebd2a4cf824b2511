// Turns.
#include "base/fair_queue.h"

#include <utility>

#include "base/check.h"

namespace fulmar {

FairQueue::FairQueue(size_t most_waiting, size_t most_of_share, size_t most_heavy_running)
    : most_waiting_(most_waiting), most_of_share_(most_of_share), most_heavy_running_(most_heavy_running) {}

bool FairQueue::add(ClientJob job) {
  Lane& lane = this->lane(job.weight);
  const auto known = lane.waiting.find(job.share);
  const size_t of_share = known == lane.waiting.end() ? 0 : known->second.size();
  if (lane.count >= most_waiting_ || of_share >= most_of_share_) return false;
  if (of_share == 0 && !lane.running.contains(job.share)) lane.turns.push_back(job.share);
  ++lane.count;
  lane.waiting[job.share].push_back(std::move(job));
  return true;
}

std::optional<ClientJob> FairQueue::take() {
  const auto ready = [&](JobWeight weight) {
    return !lane(weight).turns.empty() &&
           (weight == JobWeight::light || lane(weight).running.size() < most_heavy_running_);
  };
  const JobWeight other = last_ == JobWeight::light ? JobWeight::heavy : JobWeight::light;
  if (!ready(other) && !ready(last_)) return std::nullopt;
  const JobWeight weight = ready(other) ? other : last_;
  last_ = weight;
  Lane& lane = this->lane(weight);
  const std::string share = std::move(lane.turns.front());
  lane.turns.pop_front();
  const auto jobs = lane.waiting.find(share);
  ClientJob job = std::move(jobs->second.front());
  jobs->second.pop_front();
  if (jobs->second.empty()) lane.waiting.erase(jobs);
  --lane.count;
  lane.running.insert(share);
  return job;
}

void FairQueue::done(const std::string& share, JobWeight weight) {
  Lane& lane = this->lane(weight);
  FULMAR_CHECK(lane.running.erase(share) == 1);
  if (lane.waiting.contains(share)) lane.turns.push_back(share);
}

void FairQueue::stop_waiting() {
  for (Lane& lane : lanes_) {
    for (auto& [share, jobs] : lane.waiting) {
      for (const ClientJob& job : jobs) job.meter->stop();
    }
  }
}

}  // namespace fulmar
