// Names and the list of loaded models.
#include "server/served_model.h"

#include <algorithm>

namespace fulmar {
namespace {

constexpr std::string_view kGeneralNames[] = {"", "default", "rwkv", "rwkv7", "rwkv-7"};
constexpr std::string_view kExtensions[] = {".pth", ".safetensors", ".st", ".gguf"};

bool is_general(std::string_view name) {
  return std::find(std::begin(kGeneralNames), std::end(kGeneralNames), name) != std::end(kGeneralNames);
}

}  // namespace

std::string served_id(std::string_view path) {
  std::string_view name = path.substr(path.find_last_of('/') + 1);
  for (const std::string_view extension : kExtensions) {
    if (name.size() > extension.size() && name.ends_with(extension)) {
      name.remove_suffix(extension.size());
      break;
    }
  }
  return std::string(name);
}

void ModelRegistry::add(ServedModelPtr model) {
  std::lock_guard lock(mutex_);
  std::erase_if(models_, [&](const ServedModelPtr& old) { return old->id == model->id; });
  models_.push_back(std::move(model));
}

bool ModelRegistry::remove(std::string_view id) {
  std::lock_guard lock(mutex_);
  return std::erase_if(models_, [&](const ServedModelPtr& model) { return model->id == id; }) > 0;
}

ServedModelPtr ModelRegistry::find(std::string_view name, bool strict) const {
  std::lock_guard lock(mutex_);
  for (auto model = models_.rbegin(); model != models_.rend(); ++model) {
    if ((*model)->id == name || (!name.empty() && (*model)->view_name == name)) return *model;
  }
  if (models_.empty() || (strict && !is_general(name))) return nullptr;
  return models_.back();
}

std::vector<ServedModelPtr> ModelRegistry::all() const {
  std::lock_guard lock(mutex_);
  return {models_.rbegin(), models_.rend()};
}

bool ModelRegistry::empty() const {
  std::lock_guard lock(mutex_);
  return models_.empty();
}

}  // namespace fulmar
