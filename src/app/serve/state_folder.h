// The folder of tuned states that clients have sent: files in, files out, a list. Knows no engine.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/time_state.h"
#include "server/models/model_admin.h"

namespace fulmar {

class StateFolder {
 public:
  // What a folder holds already is listed. Empty: a temporary folder, made when the first file comes and gone
  // with this object.
  explicit StateFolder(std::filesystem::path folder);
  ~StateFolder();
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

  // Why what the folder holds could not be listed: there may be states then that nobody sees.
  const Status& listed() const { return listed_; }

  struct Kept {
    StateFile file;
    TimeState state;
  };
  // Files of one owner; those of the server itself are not counted.
  static constexpr size_t kMostOfOwner = 64;

  // A file that has come and is read, under a name that nobody lists. It goes with this object unless it is
  // kept.
  class Incoming {
   public:
    Incoming(std::filesystem::path path, StateFile file, TimeState state)
        : path_(std::move(path)), file_(std::move(file)), state_(std::move(state)) {}
    ~Incoming();
    Incoming(Incoming&& other) noexcept
        : path_(std::exchange(other.path_, {})),
          file_(std::move(other.file_)),
          state_(std::move(other.state_)) {}
    Incoming& operator=(Incoming&&) = delete;

    const StateFile& file() const { return file_; }
    const TimeState& state() const { return state_; }

   private:
    friend class StateFolder;
    std::filesystem::path path_;  // empty once it is kept, or moved from
    StateFile file_;
    TimeState state_;
  };
  // `owner`: the name of a key; empty: the server itself. Errors: a name that is no plain file name of a
  // known extension, a file that does not fit the model (invalid); too many of the owner's (resource).
  Result<Incoming> take_in(const std::string& owner, const std::string& filename, std::string_view bytes,
                           const ModelConfig& config);
  // Puts it in place of the owner's file of that id, which stays where that fails.
  Status keep(Incoming& incoming);
  // Returns whether there was one of that id. An Error where its file stays: it is listed still.
  Result<bool> drop(const std::string& owner, const std::string& id);
  // Those that fit the model.
  std::vector<Kept> fitting(const ModelConfig& config) const;
  // From any thread, by id and owner.
  std::vector<StateFile> list() const;

 private:
  Status make_temporary();
  Status scan(const std::filesystem::path& folder, const std::string& owner);
  Status scan_all();
  std::filesystem::path folder_of(const std::string& owner) const;
  size_t count(const std::string& owner, const std::string& but) const;
  void insert(StateFile file);
  std::vector<StateFile>::iterator find(const std::string& owner, const std::string& id);

  std::filesystem::path folder_;
  bool temporary_ = false;
  Status listed_;
  mutable std::mutex mutex_;
  std::vector<StateFile> files_;  // by id and owner
};

}  // namespace fulmar
