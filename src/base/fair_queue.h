// Jobs of many clients in the order in which they are to run: those of one share one after the other, shares
// by turns, and light jobs past heavy ones. Only add() takes memory: a job that was added is run. Knows no
// threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/meter.h"

namespace fulmar {

enum class JobWeight : uint8_t { light, heavy };

struct ClientJob {
  std::string share;  // a key's name or a client's address: whoever it is done for
  JobWeight weight = JobWeight::heavy;
  std::shared_ptr<Meter> meter;  // not null
  std::function<void()> run;
};

class FairQueue {
 public:
  // `most_waiting`: jobs of all shares that wait; `most_of_share`: those of one; each counts light and heavy
  // jobs by themselves. `most_heavy_running`: heavy jobs that run at once.
  FairQueue(size_t most_waiting, size_t most_of_share, size_t most_heavy_running);

  // False, and the job is dropped, when too many wait.
  bool add(ClientJob job);
  // The job that is to run now, which counts as running until done(); nothing when none may.
  std::optional<ClientJob> take();
  void done(const std::string& share, JobWeight weight);

  bool empty() const { return lanes_[0].count + lanes_[1].count == 0; }
  // Stops the meters of all jobs that wait.
  void stop_waiting();

 private:
  struct ClientQueue {
    std::string name;
    std::deque<ClientJob> jobs;
    bool running = false;
  };
  struct Lane {
    std::list<ClientQueue> ready;   // with a job that may run, next first
    std::list<ClientQueue> parked;  // one job runs, or none waits
    std::map<std::string_view, std::list<ClientQueue>::iterator> by_name;
    size_t count = 0;    // jobs that wait
    size_t running = 0;  // jobs that run
  };

  Lane& lane(JobWeight weight) { return lanes_[static_cast<size_t>(weight)]; }

  const size_t most_waiting_, most_of_share_, most_heavy_running_;
  std::array<Lane, 2> lanes_;
  JobWeight last_ = JobWeight::heavy;
};

}  // namespace fulmar
