// The only way to start a thread: with a name and an outermost handler. An uncaught exception would end the
// process, so nothing else in src/ makes threads (tools/check_readers.py).
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/function_ref.h"

namespace fulmar {

// Runs `work` until it returns. An exception is logged under the name, and after a short pause `work` is
// called again: it is meant to be a loop of which one turn has failed, mostly for lack of memory. Whoever
// waits for an answer from that turn must get it within the turn.
class Thread {
 public:
  Thread() = default;
  Thread(std::string name, std::function<void()> work);

  bool joinable() const { return thread_.joinable(); }
  void join() { thread_.join(); }
  void detach() { thread_.detach(); }
  std::thread::id get_id() const { return thread_.get_id(); }
  std::thread::native_handle_type native_handle() { return thread_.native_handle(); }

 private:
  std::thread thread_;
};

// Runs `work(index)` on the caller's thread, with index 0, and on up to `threads` - 1 others; on fewer where
// no more can be started. When all have ended, rethrows the first exception of any of them.
void run_on_threads(unsigned threads, FunctionRef<void(unsigned index)> work);

// Returns the number of hardware threads of this machine, at least 1.
unsigned processor_threads();

}  // namespace fulmar
