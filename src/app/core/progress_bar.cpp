#include "app/core/progress_bar.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace fulmar {

namespace {
constexpr int kWidth = 40;
}

void ProgressBar::show(double fraction) {
  const int percent = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 100);
  if (title_.empty() || percent == percent_ || isatty(STDERR_FILENO) == 0) return;
  percent_ = percent;
  const auto done = static_cast<size_t>(kWidth * percent / 100);
  fmt::print(stderr, "\r{} [{}{}] {:3d} %", title_, std::string(done, '#'), std::string(kWidth - done, '.'),
             percent);
  std::fflush(stderr);
}

ProgressBar::~ProgressBar() {
  if (percent_ >= 0) fmt::print(stderr, "\r{:{}}\r", "", title_.size() + kWidth + 12);
}

}  // namespace fulmar
