// What happened to the workers, with times: a ring of the last events. Written by the supervisor's thread,
// read by any.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace fulmar {

struct WorkerEvent {
  double time = 0;     // seconds since 1970
  std::string worker;  // id; empty: of the fleet
  std::string name;    // the worker's, which may be empty
  std::string kind;  // started, ready, unresponsive, draining, crashed, stopped, restarting, removed, failed
  std::string text;  // in words, such as the exit code; may be empty
  std::vector<std::string> lines;  // the last ones of the worker's output, of a crash
};

class EventLog {
 public:
  explicit EventLog(size_t most_events = 500) : most_events_(most_events) {}

  // Stamps the event with the present time.
  void add(WorkerEvent event);
  // Returns {"events":[...]}, oldest first: those after `since`, in seconds since 1970.
  std::string json(double since) const;

 private:
  const size_t most_events_;
  mutable std::mutex mutex_;
  std::deque<WorkerEvent> events_;
};

}  // namespace fulmar
