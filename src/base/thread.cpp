// Outermost handlers.
#include "base/thread.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"

namespace fulmar {
namespace {

constexpr std::chrono::milliseconds kPause{50};

// Runs `work` once. Returns whether it returned without an exception.
bool attempt(const std::string& name, const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const std::exception& failure) {
    spdlog::error("work failed thread={} reason=\"{}\"", name, failure.what());
  } catch (...) {
    spdlog::error("work failed thread={} reason=\"unknown\"", name);
  }
  return false;
}

}  // namespace

Thread::Thread(std::string name, std::function<void()> work)
    : thread_([name = std::move(name), work = std::move(work)] {
        while (!attempt(name, work)) std::this_thread::sleep_for(kPause);
      }) {}

void run_on_threads(unsigned threads, FunctionRef<void(unsigned index)> work) {
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto guarded = [&](unsigned index) {
    try {
      work(index);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  try {
    helpers.reserve(threads);
    for (unsigned index = 1; index < threads; index++) helpers.emplace_back(guarded, index);
  } catch (const std::exception&) {
    // No further thread is to be had; those that are there do the work.
  }
  guarded(0);
  for (std::thread& helper : helpers) helper.join();
  if (thrown) std::rethrow_exception(thrown);
}

unsigned processor_threads() { return std::max(1u, std::thread::hardware_concurrency()); }

}  // namespace fulmar
