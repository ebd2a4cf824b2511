#include "app/serve/first_model.h"

namespace fulmar {

bool FirstModel::serve(const std::function<void()>& serve) {
  std::lock_guard lock(mutex_);
  if (stage_ == Stage::ended) return false;
  stage_ = Stage::serving;  // before anybody is served: also where `serve` throws
  serve();
  return true;
}

bool FirstModel::end() {
  std::lock_guard lock(mutex_);
  if (stage_ == Stage::serving) return false;
  stage_ = Stage::ended;
  return true;
}

}  // namespace fulmar
