// A progress bar on stderr, shown on a terminal only.
#pragma once

#include <string>

namespace fulmar {

class ProgressBar {
 public:
  explicit ProgressBar(std::string title) : title_(std::move(title)) {}  // an empty title: shows nothing
  ~ProgressBar();
  void show(double fraction);  // 0 to 1

 private:
  const std::string title_;
  int percent_ = -1;
};

}  // namespace fulmar
