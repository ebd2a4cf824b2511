// Service discovery: one record for each worker, which expires when its worker no longer renews it. A small
// interface, implemented by Redis.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/redis_link.h"

namespace fulmar {

struct WorkerRecord {
  std::string name;  // unique in the fleet: letters, digits, '-', '_', '.'
  std::string host;  // under which others reach it
  uint16_t port = 0;
  std::string model;
  bool draining = false;  // takes no new sessions

  bool operator==(const WorkerRecord&) const = default;
};

// Used from one thread at a time.
class WorkerDirectory {
 public:
  virtual ~WorkerDirectory() = default;
  // Writes or renews the record, which expires after `time_to_live` unless renewed.
  virtual Status announce(const WorkerRecord& worker, std::chrono::milliseconds time_to_live) = 0;
  virtual Status withdraw(const std::string& name) = 0;
  // Returns the records, sorted by name.
  virtual Result<std::vector<WorkerRecord>> workers() = 0;
};

std::unique_ptr<WorkerDirectory> redis_directory(const RedisAddress& address);

}  // namespace fulmar
