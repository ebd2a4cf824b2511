#include "app/serve/state_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "base/log.h"
#include "base/unix_time.h"
#include "base/write_file.h"
#include "files/mapped_file.h"
#include "server/core/api_keys.h"
#include "server/models/served_model.h"

namespace fulmar {

namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestName = 128;
// Begins the name of an owner's folder. No stored file begins so.
constexpr char kOwnerMark = '@';
constexpr std::array<std::string_view, 3> kEndings{".pth", ".st", ".safetensors"};

Status check_name(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  const bool ends_well = std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) {
    return name.size() > ending.size() && name.ends_with(ending);
  });
  if (ends_well && name.size() <= kLongestName && name.front() != '.' &&
      std::all_of(name.begin(), name.end(), fits)) {
    return {};
  }
  return Error{ErrorKind::invalid,
               fmt::format("the file name is '{}'; wanted at most {} of A-Z a-z 0-9 . _ - and one of the "
                           "endings {}",
                           name, kLongestName, fmt::join(kEndings, ", "))};
}

// Returns what a file's name, size and time tell.
StateFile stat_file(const fs::path& path, const std::string& filename) {
  std::error_code error;
  constexpr int64_t kMillis = 1000;
  StateFile file{.id = served_id(filename), .filename = filename, .created_ms = unix_seconds() * kMillis};
  file.bytes = static_cast<int64_t>(fs::file_size(path, error));
  const auto written = fs::last_write_time(path, error);
  if (!error) {
    const auto system = std::chrono::file_clock::to_sys(written).time_since_epoch();
    file.created_ms = std::chrono::duration_cast<std::chrono::milliseconds>(system).count();
  }
  return file;
}

// Adds what the file's tensors tell; nothing where it cannot be read.
void describe_tensors(const fs::path& path, StateFile& file) {
  const FileWatch watch;  // a file lost meanwhile must not cost the server
  const auto checkpoint = open_checkpoint(path);
  if (!checkpoint) return;
  file.tensors = static_cast<int64_t>((*checkpoint)->tensors().size());
  for (const StoredTensor& tensor : (*checkpoint)->tensors()) {
    if (!tensor.name.ends_with(".att.time_state") || tensor.shape.size() != 3) continue;
    ++file.layers;
    file.heads = tensor.shape[0];
    file.head_size = tensor.shape[1];
  }
}

bool same(const StateFile& a, const StateFile& b) {
  return a.owner == b.owner && a.filename == b.filename && a.bytes == b.bytes && a.created_ms == b.created_ms;
}

bool contains(const std::vector<StateFile>& files, const StateFile& file) {
  return std::any_of(files.begin(), files.end(), [&](const StateFile& one) { return same(one, file); });
}

// Returns the error of listing a folder. A missing one is no error: it is made for the first file.
Status unlisted(const fs::path& folder, std::error_code error) {
  if (!error || error == std::errc::no_such_file_or_directory) return {};
  return Error{ErrorKind::io, fmt::format("the folder of states '{}' cannot be listed: {}", folder.string(),
                                          error.message())};
}

}  // namespace

StateFolder::StateFolder(fs::path folder) : folder_(std::move(folder)), named_(!folder_.empty()) {
  if (!named_) return;
  if (const auto listed = list_again(); !listed.ok()) listed_ = listed.error();
}

StateFolder::Time StateFolder::time_of(const std::string& owner) const {
  std::error_code error;
  const Time time = fs::last_write_time(folder_of(owner), error);
  return error ? Time::min() : time;
}

bool StateFolder::changed(const std::string& owner) const {
  return named_ && (differs({}) || (!owner.empty() && differs(owner)));
}

// Tells whether an owner's files are others than those of the list. What this object did itself changes the
// folder's time, too, so its files are compared where the time is another.
bool StateFolder::differs(const std::string& owner) const {
  {
    std::lock_guard lock(mutex_);
    const auto listed = folders_.find(owner);
    if (listed == folders_.end()) return time_of(owner) != Time::min();
    if (listed->second == time_of(owner)) return false;
  }
  Listing now;
  if (!scan(owner, now).ok()) return true;
  std::lock_guard lock(mutex_);
  const auto theirs =
      std::count_if(files_.begin(), files_.end(), [&](const StateFile& file) { return file.owner == owner; });
  const bool equal = static_cast<size_t>(theirs) == now.files.size() &&
                     std::all_of(now.files.begin(), now.files.end(),
                                 [&](const StateFile& file) { return contains(files_, file); });
  if (equal) folders_[owner] = now.folders[owner];
  return !equal;
}

// Adds a folder's files to a listing. A change that comes later may bear the same time, since clocks of files
// are coarse: a folder that was written just now counts as not listed.
Status StateFolder::scan(const std::string& owner, Listing& listing) const {
  constexpr std::chrono::seconds kCoarse{2};
  const fs::path folder = folder_of(owner);
  const Time time = time_of(owner);
  const bool settled = Time::clock::now() - time > kCoarse;
  listing.folders[owner] = settled || time == Time::min() ? time : Time::max();
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!check_name(name)) continue;
    StateFile file = stat_file(entry->path(), name);
    file.owner = owner;
    listing.files.push_back(std::move(file));
  }
  return unlisted(folder, error);
}

Result<StateFolder::Listing> StateFolder::scan_all() const {
  Listing listing;
  FULMAR_TRY(scan({}, listing));
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kOwnerMark) || !is_key_name(name.substr(1))) continue;
    FULMAR_TRY(scan(name.substr(1), listing));
  }
  FULMAR_TRY(unlisted(folder_, error));
  return listing;
}

Result<StateFolder::Changes> StateFolder::list_again() {
  FULMAR_ASSIGN(Listing listing, scan_all());
  const std::vector<StateFile> before = list();
  Changes changes;
  for (StateFile& file : listing.files) {
    if (contains(before, file)) continue;
    describe_tensors(folder_of(file.owner) / file.filename, file);
    changes.fresh.push_back(file);
  }
  for (const StateFile& file : before) {
    if (!contains(listing.files, file)) changes.gone.push_back(file);
  }
  std::lock_guard lock(mutex_);
  for (const StateFile& file : changes.gone) {
    std::erase_if(files_, [&](const StateFile& one) { return same(one, file); });
  }
  for (const StateFile& file : changes.fresh) insert(file);
  folders_ = std::move(listing.folders);
  return changes;
}

Result<TimeState> StateFolder::read(const StateFile& file, const ModelConfig& config) const {
  return read_time_state(folder_of(file.owner) / file.filename, config);
}

fs::path StateFolder::folder_of(const std::string& owner) const {
  return owner.empty() ? folder_ : folder_ / (kOwnerMark + owner);
}

size_t StateFolder::count(const std::string& owner, const std::string& but) const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(files_.begin(), files_.end(), [&](const StateFile& file) {
    return file.owner == owner && file.id != but;
  }));
}

StateFolder::~StateFolder() {
  std::error_code ignored;
  if (temporary_) fs::remove_all(folder_, ignored);
}

Status StateFolder::make_temporary() {
  if (!folder_.empty()) return {};
  std::error_code error;
  std::string name = (fs::temp_directory_path(error) / "fulmar-states-XXXXXX").string();
  if (error || ::mkdtemp(name.data()) == nullptr) {
    return Error{kind_of_refusal(errno), fmt::format("no folder for state files: {}", std::strerror(errno))};
  }
  folder_ = name;
  temporary_ = true;
  return {};
}

StateFolder::Incoming::~Incoming() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove(path_, ignored);
}

Result<StateFolder::Incoming> StateFolder::take_in(const std::string& owner, const std::string& filename,
                                                   std::string_view bytes, const ModelConfig& config) {
  FULMAR_TRY(check_name(filename));
  if (!owner.empty() && count(owner, served_id(filename)) >= kMostOfOwner) {
    return Error{ErrorKind::resource,
                 fmt::format("{} states of '{}' are kept already, which is the most; delete one",
                             kMostOfOwner, owner)};
  }
  FULMAR_TRY(make_temporary());
  const fs::path folder = folder_of(owner);
  std::error_code made;
  fs::create_directories(folder, made);
  if (made)
    return Error{kind_of_refusal(made.value()), fmt::format("'{}': {}", folder.string(), made.message())};
  // Under another name until it is checked; the ending tells the format.
  Incoming incoming(folder / (".incoming." + filename), {}, {});
  FULMAR_TRY(write_file(incoming.path_, bytes));
  Result<TimeState> state = read_time_state(incoming.path_, config);
  if (!state) {
    return Error{ErrorKind::invalid,
                 fmt::format("'{}' is no state for this model: {}", filename, state.error().text)};
  }
  incoming.file_ = stat_file(incoming.path_, filename);
  describe_tensors(incoming.path_, incoming.file_);
  incoming.file_.owner = owner;
  incoming.state_ = std::move(*state);
  return incoming;
}

Status StateFolder::keep(Incoming& incoming) {
  const StateFile& file = incoming.file_;
  const fs::path folder = folder_of(file.owner);
  std::error_code error;
  fs::rename(incoming.path_, folder / file.filename, error);
  if (error) {
    return Error{kind_of_refusal(error.value()), fmt::format("'{}': {}", file.filename, error.message())};
  }
  incoming.path_.clear();
  {
    std::lock_guard lock(mutex_);
    if (const auto old = find(file.owner, file.id); old != files_.end()) {
      // Of the same id with another ending.
      if (old->filename != file.filename) fs::remove(folder / old->filename, error);
      files_.erase(old);
    }
    insert(file);
  }
  return {};
}

// Returns the owner's file of that id, or the end. Call under the lock.
std::vector<StateFile>::iterator StateFolder::find(const std::string& owner, const std::string& id) {
  return std::find_if(files_.begin(), files_.end(),
                      [&](const StateFile& file) { return file.id == id && file.owner == owner; });
}

Result<bool> StateFolder::drop(const std::string& owner, const std::string& id) {
  std::lock_guard lock(mutex_);
  const auto found = find(owner, id);
  if (found == files_.end()) return false;
  std::error_code error;
  fs::remove(folder_of(owner) / found->filename, error);
  if (error) {
    return Error{ErrorKind::io, fmt::format("'{}' cannot be removed: {}", found->filename, error.message())};
  }
  files_.erase(found);
  return true;
}

std::vector<StateFolder::Kept> StateFolder::fitting(const ModelConfig& config) const {
  std::vector<Kept> kept;
  for (StateFile& file : list()) {
    Result<TimeState> state = read(file, config);
    if (state) {
      kept.push_back({std::move(file), std::move(*state)});
    } else {
      spdlog::info("state file '{}' is not for this model: {}", file.filename, state.error().text);
    }
  }
  return kept;
}

std::vector<StateFile> StateFolder::list() const {
  std::lock_guard lock(mutex_);
  return files_;
}

// Adds a file to the list. Call under the lock.
void StateFolder::insert(StateFile file) {
  const auto place =
      std::lower_bound(files_.begin(), files_.end(), file, [](const StateFile& a, const StateFile& b) {
        return std::tie(a.id, a.owner) < std::tie(b.id, b.owner);
      });
  files_.insert(place, std::move(file));
}

}  // namespace fulmar
