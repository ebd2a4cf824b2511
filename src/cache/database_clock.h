// The believed time of one database, kept in its table fulmar_meta from process to process.
#pragma once

#include <functional>

#include "base/believed_time.h"
#include "base/unix_time.h"
#include "cache/sqlite_statement.h"

namespace fulmar {

// Returns the seconds since the machine started, sleep included; setting the wall clock does not change them.
double seconds_since_boot();

// The clocks that a store reads.
struct Clocks {
  std::function<double()> wall = unix_time;
  std::function<double()> passing = seconds_since_boot;
};

class DatabaseClock {
 public:
  DatabaseClock(Clocks clocks, double max_clock_lead);

  // Continues where the last process stopped; `newest` is the latest time of anything in the database.
  Status load(const Database& database, double newest);
  // Returns the believed time in unix seconds.
  double now();
  // Writes the time. Does nothing before load() was called: the database may be somebody else's.
  Status save(const Database& database);

 private:
  const Clocks clocks_;
  const double most_credit_;
  BelievedTime time_;
  bool loaded_ = false;
  double passed_at_;  // on clocks_.passing, when time_ was right
};

}  // namespace fulmar
