// Who comes first at the start of a server, its first model or the signal that ends it, said once and for
// both threads: the port is open by then, so that a model serves, and turns are answered, before the thread
// that waits for signals has heard of it.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

namespace fulmar {

class FirstModel {
 public:
  // Called by the thread that loads: runs `serve`, which lets clients find the model, unless the end came
  // first. Returns whether it ran.
  bool serve(const std::function<void()>& serve);

  // Called when a signal says stop. True: nothing is served and nothing will be, the process may end as it
  // stands. False: clients may have been answered, and only an orderly stop keeps what they were told. Waits
  // for a serve() under way.
  bool end();

 private:
  enum class Phase : uint8_t { loading, serving, ended };
  std::mutex mutex_;
  Phase stage_ = Phase::loading;
};

}  // namespace fulmar
