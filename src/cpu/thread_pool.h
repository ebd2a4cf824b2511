// Worker threads that run loops together with the calling thread. Knows nothing of what the loops compute.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace fulmar {

// A fixed set of threads: the caller and `threads - 1` workers, each worker pinned to a processor of its own
// where there are enough. Between loops a worker spins for a moment, because the next loop of a step usually
// follows within microseconds, and then sleeps. Loops are started by one thread at a time and do not nest.
class ThreadPool {
 public:
  // Starts the workers. threads: at least 1; the caller counts as one.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs body over disjoint ranges that together cover [0, count), and returns when all are done. Every range
  // but the last is a multiple of `grain` (>= 1) long. Which thread runs which range differs from call to
  // call, so a body must give the same result for every split.
  void parallel_for(int64_t count, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> body);

  // Returns memory that the ranges of one or several loops share: at least `floats` numbers, 64-byte aligned,
  // contents undefined, valid until the next call. Grows to the largest size asked for.
  std::span<float> workspace(size_t floats);

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  // The current loop. Written by the caller while no worker is inside, read by the workers that joined.
  struct Loop {
    int64_t count = 0;
    int64_t grain = 1;
    FunctionRef<void(int64_t, int64_t)> const* body = nullptr;
  };

  void work();
  void take_chunks();
  bool join(uint64_t seen);
  uint64_t await_loop(uint64_t seen);
  void await_workers();

  Loop loop_;
  alignas(64) std::atomic<int64_t> next_ = 0;  // first index that no thread has claimed
  // Bits: number of the loop << 16 | open << 15 | workers inside. A worker enters only an open loop, so that
  // the caller never waits for one that has not woken up yet.
  alignas(64) std::atomic<uint64_t> state_ = 0;
  alignas(64) std::atomic<uint32_t> bell_ = 0;  // changes with every loop; sleeping workers wait on it
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> workers_;
  std::unique_ptr<float, Free> workspace_;
  size_t workspace_floats_ = 0;
};

}  // namespace fulmar
