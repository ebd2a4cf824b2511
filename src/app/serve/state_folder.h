// The folder of tuned states that clients have sent: stores, deletes and lists files. Several servers may use
// one folder: each sees what the others did. Knows no engine.
#pragma once

#include <filesystem>
#include <map>
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
  // Lists the folder's files. Empty: a temporary folder, made when the first file comes
  // and removed with this object.
  explicit StateFolder(std::filesystem::path folder);
  ~StateFolder();
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

  // Returns the error, if any, of listing the folder: then there may be states that are not in the list.
  const Status& listed() const { return listed_; }

  struct Kept {
    StateFile file;
    TimeState state;
  };
  // Most files of one owner; the server's own are not counted.
  static constexpr size_t kMostOfOwner = 64;

  // A received file that was read, under a name that is in no list. It is removed with
  // this object unless it is kept.
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
  // Stores and reads a file. `owner`: the name of a key; empty: the server itself. Fails (invalid) for a name
  // that is no plain file name with a known extension and for a file that does not fit the model; (resource)
  // for too many of the owner's files.
  Result<Incoming> take_in(const std::string& owner, const std::string& filename, std::string_view bytes,
                           const ModelConfig& config);
  // Replaces the owner's file of that id, which stays if this fails.
  Status keep(Incoming& incoming);
  // Removes a file; returns whether there was one of that id. Fails if the file cannot
  // be removed: it stays listed.
  Result<bool> drop(const std::string& owner, const std::string& id);
  // Tells whether the folder has changed for this owner since it was listed, by another hand than this
  // object's. From any thread; looks at the disk twice, and at the files where the folder was written to.
  bool changed(const std::string& owner) const;
  struct Changes {
    std::vector<StateFile> fresh;  // new ones, and those with other content
    std::vector<StateFile> gone;
  };
  // Lists the folder again and returns how it differs from the list. Where it cannot be listed, all is as it
  // was.
  Result<Changes> list_again();
  // Reads a listed file.
  Result<TimeState> read(const StateFile& file, const ModelConfig& config) const;

  // Returns the states that fit the model.
  std::vector<Kept> fitting(const ModelConfig& config) const;
  // Returns all files by id and owner. From any thread.
  std::vector<StateFile> list() const;

 private:
  using Time = std::filesystem::file_time_type;
  struct Listing {
    std::vector<StateFile> files;
    std::map<std::string, Time>
        folders;  // by owner: when each was written last, as far as this listing has it
  };

  Status make_temporary();
  Status scan(const std::string& owner, Listing& listing) const;
  Result<Listing> scan_all() const;
  Time time_of(const std::string& owner) const;
  bool differs(const std::string& owner) const;
  std::filesystem::path folder_of(const std::string& owner) const;
  size_t count(const std::string& owner, const std::string& but) const;
  void insert(StateFile file);
  std::vector<StateFile>::iterator find(const std::string& owner, const std::string& id);

  std::filesystem::path folder_;
  const bool named_;  // others may write to it, too
  bool temporary_ = false;
  Status listed_;
  mutable std::mutex mutex_;
  std::vector<StateFile> files_;  // by id and owner
  mutable std::map<std::string, Time> folders_;
};

}  // namespace fulmar
