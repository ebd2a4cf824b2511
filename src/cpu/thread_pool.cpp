// The workers share only state_: it opens a loop, counts the workers inside and closes it again.
#include "cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace fulmar {
namespace {

constexpr uint64_t kInsideMask = 0x7fff;
constexpr uint64_t kOpen = 0x8000;
constexpr int kNumberShift = 16;
constexpr auto kSpinTime = std::chrono::microseconds(200);  // longer than the gap between loops of one step
constexpr int kSpinsPerLook = 32;
constexpr int64_t kSharesPerThread = 2;  // of what is left; a thread takes one at a time

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns the processors this process may use, in ascending order.
std::vector<int> allowed_processors() {
  std::vector<int> allowed;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return allowed;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) allowed.push_back(cpu);
  }
  return allowed;
}

void pin(std::thread& thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // Pinning only helps speed; where it is forbidden the pool works without.
  (void)pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set);
}

// Wakes the workers with the message that there is no further loop, and waits until they end.
void end_all(std::vector<std::thread>& workers, std::atomic<bool>& stopping, std::atomic<uint32_t>& bell) {
  stopping.store(true);
  bell.fetch_add(1);
  bell.notify_all();
  for (std::thread& worker : workers) worker.join();
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  FULMAR_CHECK(threads >= 1 && static_cast<uint64_t>(threads) <= kInsideMask);
  const std::vector<int> allowed = allowed_processors();
  workers_.reserve(static_cast<size_t>(threads - 1));
  try {
    for (int i = 1; i < threads; ++i) {
      workers_.emplace_back([this] { work(); });
      if (allowed.size() >= static_cast<size_t>(threads))
        pin(workers_.back(), allowed[static_cast<size_t>(i)]);
    }
  } catch (...) {  // no further thread from the system: ends those that exist and reports it
    end_all(workers_, stopping_, bell_);
    throw;
  }
}

ThreadPool::~ThreadPool() { end_all(workers_, stopping_, bell_); }

void ThreadPool::parallel_for(int64_t count, int64_t grain,
                              FunctionRef<void(int64_t begin, int64_t end)> body) {
  FULMAR_CHECK(grain >= 1);
  if (count <= 0) return;
  if (workers_.empty() || count <= grain) return body(0, count);

  loop_ = {.count = count, .grain = grain, .body = &body};
  next_.store(0, std::memory_order_relaxed);
  const uint64_t number = (state_.load(std::memory_order_relaxed) >> kNumberShift) + 1;
  state_.store(number << kNumberShift | kOpen, std::memory_order_release);
  bell_.fetch_add(1);
  bell_.notify_all();
  take_chunks();
  await_workers();
}

std::span<float> ThreadPool::workspace(size_t floats) {
  if (floats > workspace_floats_) {
    constexpr size_t kAlignment = 64;
    const size_t bytes = (floats * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
    workspace_.reset();  // before the larger one, so that both never exist at once
    workspace_.reset(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)));
    FULMAR_CHECK(workspace_ != nullptr, "out of memory for a matrix product");
    workspace_floats_ = floats;
  }
  return {workspace_.get(), workspace_floats_};
}

// Takes large chunks at first, because memory prefers long streams, and small ones at the end, because
// threads should finish together although the system may slow any of them down.
void ThreadPool::take_chunks() {
  const Loop loop = loop_;
  const int64_t shares = kSharesPerThread * size();
  int64_t begin = next_.load(std::memory_order_relaxed);
  while (begin < loop.count) {
    const int64_t grains = (loop.count - begin) / loop.grain / shares;
    const int64_t end = std::min(begin + std::max<int64_t>(1, grains) * loop.grain, loop.count);
    if (!next_.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
    (*loop.body)(begin, end);
    begin = next_.load(std::memory_order_relaxed);
  }
}

// Closes the loop and waits until the workers that joined it have left.
void ThreadPool::await_workers() {
  state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int spins = 0; (state_.load(std::memory_order_acquire) & kInsideMask) != 0; ++spins) {
    if (spins % kSpinsPerLook == kSpinsPerLook - 1) {
      std::this_thread::yield();  // the worker may need this very processor
    } else {
      pause_briefly();
    }
  }
}

void ThreadPool::work() {
  uint64_t seen = 0;
  while (true) {
    seen = await_loop(seen);
    if (stopping_.load()) return;
    if (!join(seen)) continue;
    take_chunks();
    state_.fetch_sub(1, std::memory_order_release);
  }
}

// Enters loop `number` if it is still open.
bool ThreadPool::join(uint64_t number) {
  uint64_t state = state_.load(std::memory_order_relaxed);
  while (state >> kNumberShift == number && (state & kOpen) != 0) {
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) return true;
  }
  return false;
}

// Returns the number of the current loop once it differs from `seen`, or anything when the pool stops.
uint64_t ThreadPool::await_loop(uint64_t seen) {
  while (true) {
    const auto give_up = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < kSpinsPerLook; ++i) {
        const uint64_t number = state_.load(std::memory_order_relaxed) >> kNumberShift;
        if (number != seen || stopping_.load(std::memory_order_relaxed)) return number;
        pause_briefly();
      }
    } while (std::chrono::steady_clock::now() < give_up);

    const uint32_t bell = bell_.load();
    if (state_.load() >> kNumberShift != seen || stopping_.load()) continue;
    bell_.wait(bell);
  }
}

}  // namespace fulmar
