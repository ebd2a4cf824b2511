// The one way to a thread of our own: with a name and an outermost handler. An exception that nobody takes
// would end the process, so nothing else in src/ makes threads (tools/check_readers.py).
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/function_ref.h"

namespace fulmar {

// Runs `work` until it returns. What it throws is logged under the name, and after a moment it runs anew: it
// is a loop whose pass has failed, for want of memory above all. Who is owed an answer by a pass sees to that
// within it.
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

// Runs `work(index)` on the caller's thread, with index 0, and on up to `threads` - 1 others; fewer, where no
// more are to be had. When all have ended, the first exception of any is thrown here.
void run_on_threads(unsigned threads, FunctionRef<void(unsigned index)> work);

// Of this machine, at least 1.
unsigned processor_threads();

}  // namespace fulmar
