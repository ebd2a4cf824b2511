// The believed time of one database, kept in its table fulmar_meta from process to process.
#pragma once

#include <functional>

#include "base/believed_time.h"
#include "base/unix_time.h"
#include "cache/sqlite_statement.h"

namespace fulmar {

// Seconds since the machine started, sleep included: no setting of the wall clock changes them.
double seconds_since_boot();

// Where a store gets the time from.
struct Clocks {
  std::function<double()> wall = unix_time;
  std::function<double()> passing = seconds_since_boot;
};

class DatabaseClock {
 public:
  DatabaseClock(Clocks clocks, double most_credit);

  // Reads where the last process has left off; `newest`: the latest time that the database holds of anything.
  Status load(const Database& database, double newest);
  // Returns the believed time, unix seconds.
  double now();
  Status save(const Database& database);

 private:
  const Clocks clocks_;
  const double most_credit_;
  BelievedTime time_;
  double passed_at_;  // on clocks_.passing, when time_ was right
};

}  // namespace fulmar
