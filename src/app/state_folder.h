// The folder of tuned states that clients have sent: files in, files out, a list. Knows no engine.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "files/time_state.h"
#include "server/model_admin.h"

namespace fulmar {

class StateFolder {
 public:
  // What a folder holds already is listed. Empty: a temporary folder, made when the first file comes and gone
  // with this object.
  explicit StateFolder(std::filesystem::path folder);
  ~StateFolder();
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

  struct Kept {
    StateFile file;
    TimeState state;
  };
  // Errors (invalid): a name that is no plain file name of a known extension; a file that does not fit the
  // model. The folder is as before then.
  Result<Kept> keep(const std::string& filename, std::string_view bytes, const ModelConfig& config);
  bool drop(const std::string& id);
  // Those that fit the model.
  std::vector<Kept> fitting(const ModelConfig& config) const;
  // From any thread, by id.
  std::vector<StateFile> list() const;

 private:
  Status make_temporary();
  void insert(StateFile file);

  std::filesystem::path folder_;
  bool temporary_ = false;
  mutable std::mutex mutex_;
  std::vector<StateFile> files_;  // by id
};

}  // namespace fulmar
