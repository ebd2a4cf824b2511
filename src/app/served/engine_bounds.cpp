#include "app/served/engine_bounds.h"

#include <fmt/format.h>

#include <algorithm>

namespace fulmar {

namespace {

constexpr double kMiB = 1 << 20;
constexpr int64_t kRowsOfRequest = 64, kBytesOfRequest = int64_t{256} << 10;
constexpr int64_t kLeastRows = 65536, kLeastBytes = int64_t{256} << 20;

int64_t states_in(double mib, size_t bytes) {
  return static_cast<int64_t>(mib * kMiB / static_cast<double>(std::max<size_t>(bytes, 1)));
}

}  // namespace

CacheShares share_caches(const CacheFlags& flags, size_t slot_bytes, size_t state_bytes) {
  CacheShares shares = flags.unsaid;
  if (flags.device_mib) {
    const int64_t states = states_in(*flags.device_mib, slot_bytes);
    shares.device_prefixes = states / 2;
    shares.device_sessions = states - states / 2;
  }
  if (flags.host_mib) {
    shares.host_prefix_mib = *flags.host_mib / 2;
    shares.host_sessions = states_in(*flags.host_mib / 2, state_bytes);
  }
  return shares;
}

Status check_room_for_sessions(const CacheShares& shares, bool stored, size_t state_bytes) {
  if (stored || shares.device_sessions + shares.host_sessions > 0) return {};
  return Error{ErrorKind::invalid,
               fmt::format("--cache-device and --cache-host have no room for a session, of {} MiB, and "
                           "--state-db-path is none; wanted room for one in either, or a file",
                           (state_bytes >> 20) + 1)};
}

WaitingBounds waiting_bounds(int64_t max_queue, std::optional<int64_t> rows, std::optional<int64_t> mib) {
  const auto derived = [&](int64_t each, int64_t least) {
    return max_queue > INT64_MAX / each ? INT64_MAX : std::max(least, max_queue * each);
  };
  return {.rows = rows.value_or(derived(kRowsOfRequest, kLeastRows)),
          .bytes = mib ? *mib << 20 : derived(kBytesOfRequest, kLeastBytes)};
}

}  // namespace fulmar
