#include "cache/database_clock.h"

#include <ctime>
#include <utility>

namespace fulmar {

double seconds_since_boot() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

DatabaseClock::DatabaseClock(Clocks clocks, double max_clock_lead)
    : clocks_(std::move(clocks)), most_credit_(max_clock_lead), passed_at_(clocks_.passing()) {}

// Loads the time. A database without one has times of a wall clock, none of which is in the future.
Status DatabaseClock::load(const Database& database, double newest) {
  time_ = {.now = std::max(clocks_.wall(), newest), .credit = most_credit_};
  Statement query(database,
                  "SELECT clock.value, credit.value FROM fulmar_meta clock, fulmar_meta credit "
                  "WHERE clock.key = 'clock' AND credit.key = 'clock_credit'");
  FULMAR_ASSIGN(const bool found, query.next());
  if (found) {
    time_ = {.now = std::max(query.column_real(0), newest), .credit = query.column_real(1)};
  }
  loaded_ = true;
  passed_at_ = clocks_.passing();
  now();
  return {};
}

double DatabaseClock::now() {
  const double passing = clocks_.passing();
  time_ = believe(time_, clocks_.wall(), passing - passed_at_, most_credit_);
  passed_at_ = passing;
  return time_.now;
}

Status DatabaseClock::save(const Database& database) {
  if (!loaded_) return {};
  const double time = now();
  Statement insert(database, "INSERT OR REPLACE INTO fulmar_meta VALUES('clock', ?), ('clock_credit', ?)");
  return insert.real(1, time).real(2, time_.credit).run();
}

}  // namespace fulmar
