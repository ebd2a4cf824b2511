// The wall clock as seconds since 1970, for dates that leave the process. Durations use steady clocks.
#pragma once

#include <chrono>
#include <cstdint>

namespace fulmar {

inline double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

inline int64_t unix_seconds() { return static_cast<int64_t>(unix_time()); }

}  // namespace fulmar
