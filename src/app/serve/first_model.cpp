#include "app/serve/first_model.h"

namespace fulmar {

bool FirstModel::serve(const std::function<void()>& serve) {
  std::lock_guard lock(mutex_);
  if (stage_ == Phase::ended) return false;
  stage_ = Phase::serving;  // before clients are served, also if `serve` throws
  serve();
  return true;
}

bool FirstModel::end() {
  std::lock_guard lock(mutex_);
  if (stage_ == Phase::serving) return false;
  stage_ = Phase::ended;
  return true;
}

}  // namespace fulmar
