// A ring buffer of the last lines that a worker printed. Written by the supervisor's thread, read by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace fulmar {

class LogRing {
 public:
  static constexpr size_t kMostLineBytes = 8192;

  explicit LogRing(size_t most_lines = 5000) : most_lines_(most_lines) {}

  // Appends bytes as they come from the pipe; "\n", "\r\n" and "\r" end a line, and lines longer than
  // kMostLineBytes are broken.
  void append(std::string_view bytes);
  // Ends a line that the worker left open.
  void close_line();
  // Returns the newest `count` lines, newest last, without line ends; none for count <= 0.
  std::vector<std::string> tail(int64_t count) const;

 private:
  void take_line();

  const size_t most_lines_;
  mutable std::mutex mutex_;
  std::deque<std::string> lines_;
  std::string open_;
  bool after_carriage_return_ = false;
};

}  // namespace fulmar
