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
  // Files of one owner; those of the server itself are not counted.
  static constexpr size_t kMostOfOwner = 64;

  // `owner`: the name of a key; empty: the server itself. Errors: a name that is no plain file name of a
  // known extension, a file that does not fit the model (invalid); too many of the owner's (resource). The
  // folder is as before then.
  Result<Kept> keep(const std::string& owner, const std::string& filename, std::string_view bytes,
                    const ModelConfig& config);
  bool drop(const std::string& owner, const std::string& id);
  // Those that fit the model.
  std::vector<Kept> fitting(const ModelConfig& config) const;
  // From any thread, by id and owner.
  std::vector<StateFile> list() const;

 private:
  Status make_temporary();
  void scan(const std::filesystem::path& folder, const std::string& owner);
  std::filesystem::path folder_of(const std::string& owner) const;
  size_t count(const std::string& owner, const std::string& but) const;
  void insert(StateFile file);

  std::filesystem::path folder_;
  bool temporary_ = false;
  mutable std::mutex mutex_;
  std::vector<StateFile> files_;  // by id and owner
};

}  // namespace fulmar
