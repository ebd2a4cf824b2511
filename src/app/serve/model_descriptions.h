// Facts from the files of installed models, cached until the files change: any client may ask for lists.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "app/core/installed_models.h"
#include "server/models/served_model.h"

namespace fulmar {

// Thread-safe.
class ModelDescriptions {
 public:
  using Read = std::function<Result<ServedModelPtr>()>;

  // Returns the result of `read` for these files, errors too. Calls it again once one of the files has
  // another size or time, and for a model that was pulled under another name.
  Result<ServedModelPtr> of(const InstalledFiles& files, const Read& read);

 private:
  // Beyond these all are forgotten: names come and go with the folder.
  static constexpr size_t kMost = 4096;
  struct CachedFacts {
    std::string stamp;
    Result<ServedModelPtr> facts;
  };

  std::mutex mutex_;
  std::map<std::string, CachedFacts> entries_;  // by path
};

}  // namespace fulmar
