// Who is next.
#include "base/fair_queue.h"

#include <utility>

#include "base/check.h"

namespace fulmar {

FairQueue::FairQueue(size_t most_waiting, size_t most_of_share, size_t most_heavy_running)
    : most_waiting_(most_waiting), most_of_share_(most_of_share), most_heavy_running_(most_heavy_running) {}

bool FairQueue::add(ClientJob job) {
  Lane& lane = this->lane(job.weight);
  if (lane.count >= most_waiting_) return false;
  auto known = lane.by_name.find(job.share);
  if (known == lane.by_name.end()) {
    lane.parked.push_front({job.share, {}, false});
    known = lane.by_name.emplace(lane.parked.front().name, lane.parked.begin()).first;
  }
  ClientQueue& share = *known->second;
  if (share.jobs.size() >= most_of_share_) return false;
  share.jobs.push_back(std::move(job));
  ++lane.count;
  if (!share.running && share.jobs.size() == 1)
    lane.ready.splice(lane.ready.end(), lane.parked, known->second);
  return true;
}

std::optional<ClientJob> FairQueue::take() {
  const auto may_run = [&](JobWeight weight) {
    return !lane(weight).ready.empty() &&
           (weight == JobWeight::light || lane(weight).running < most_heavy_running_);
  };
  const JobWeight other = last_ == JobWeight::light ? JobWeight::heavy : JobWeight::light;
  if (!may_run(other) && !may_run(last_)) return std::nullopt;
  last_ = may_run(other) ? other : last_;
  Lane& lane = this->lane(last_);
  ClientQueue& share = lane.ready.front();
  lane.parked.splice(lane.parked.begin(), lane.ready, lane.ready.begin());
  share.running = true;
  std::optional<ClientJob> job(std::move(share.jobs.front()));
  share.jobs.pop_front();
  --lane.count;
  ++lane.running;
  return job;
}

void FairQueue::done(const std::string& name, JobWeight weight) {
  Lane& lane = this->lane(weight);
  const auto known = lane.by_name.find(name);
  FULMAR_CHECK(known != lane.by_name.end() && known->second->running);
  const auto share = known->second;
  --lane.running;
  share->running = false;
  if (!share->jobs.empty()) {
    lane.ready.splice(lane.ready.end(), lane.parked, share);
  } else {
    lane.by_name.erase(known);
    lane.parked.erase(share);
  }
}

void FairQueue::stop_waiting() {
  for (Lane& lane : lanes_) {
    for (const std::list<ClientQueue>* shares : {&lane.ready, &lane.parked}) {
      for (const ClientQueue& share : *shares) {
        for (const ClientJob& job : share.jobs) job.meter->stop();
      }
    }
  }
}

}  // namespace fulmar
