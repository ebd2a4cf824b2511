// Decides the order in which clients' jobs run: jobs of one share run one at a time, shares take turns, and
// light jobs pass heavy ones. Only add() allocates memory, so a job that was added is certain to run. Knows
// no threads.
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
  std::string share;  // whose job it is: a key's name or a client's address
  JobWeight weight = JobWeight::heavy;
  std::shared_ptr<Meter> meter;  // not null
  std::function<void()> run;
};

class FairQueue {
 public:
  // Makes a queue of at most `most_waiting` waiting jobs in all and `most_of_share` of one share, counted for
  // light and heavy jobs separately. At most `most_heavy_running` heavy jobs run at once.
  FairQueue(size_t most_waiting, size_t most_of_share, size_t most_heavy_running);

  // Adds a job. Returns false, and drops the job, when too many wait.
  bool add(ClientJob job);
  // Returns the job to run next, which counts as running until done(); nothing when none may run.
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
