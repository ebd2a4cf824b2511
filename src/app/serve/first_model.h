// Decides for both threads, once, what comes first at the start of a server: its first model or the signal
// that ends it. The port is open by then, so a model may serve, and turns be answered, before the thread that
// waits for signals knows of it.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

namespace fulmar {

class FirstModel {
 public:
  // Runs `serve`, which lets clients find the model, unless the end came first; returns whether it ran.
  // Called by the thread that loads.
  bool serve(const std::function<void()>& serve);

  // Returns true if nothing is served nor will be, so that the process may end at once; false:
  // clients may have been answered, and only an orderly stop keeps their turns. Called when a signal
  // says stop; waits for a serve() under way.
  bool end();

 private:
  enum class Phase : uint8_t { loading, serving, ended };
  std::mutex mutex_;
  Phase stage_ = Phase::loading;
};

}  // namespace fulmar
