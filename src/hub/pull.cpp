#include "hub/pull.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/log.h"
#include "hub/file_digest.h"
#include "hub/hub_listing.h"
#include "hub/pulled_names.h"
#include "net/url.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;
using Progress = std::function<bool(int64_t bytes)>;

constexpr auto kFirstPause = std::chrono::milliseconds(200);
constexpr auto kGlance = std::chrono::milliseconds(20);
// Bytes of an attempt after which it counts as none in vain: a hub that drips is not waited for without end.
constexpr int64_t kWorthwhile = int64_t{1} << 20;
constexpr size_t kMostFiles = 100'000;  // of a repository
constexpr size_t kPartDigits = 12;
constexpr int kMostPages = 100;  // of a list; a hub puts about a thousand files on one

// Escapes each part of a path.
std::string escaped(std::string_view path) {
  std::string text;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (begin > 0) text += '/';
    text += percent_encode(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return text;
}

int64_t size_or_zero(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// Flushes a file's content, or its folder's entry, so that it survives a loss of power.
void sync_to_disk(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

Status check_space(const fs::path& folder, int64_t missing) {
  const int64_t spare = bytes_to_spare(folder);
  if (missing <= 0 || spare >= missing) return {};
  return Error{
      ErrorKind::resource,
      fmt::format("{} has {} MB free beside a reserve of {} MB; the file needs {} MB more", folder.string(),
                  spare / 1'000'000, kDiskReserve / 1'000'000, missing / 1'000'000)};
}

Status check_total(int64_t bytes, int64_t most) {
  if (bytes <= most) return {};
  return Error{
      ErrorKind::resource,
      fmt::format("the files have {} bytes; a pull may fetch {} at most (--max-download-gib)", bytes, most)};
}

class FilePull {
 public:
  // Prepares to fetch one file of at most `most` bytes, whether or not its size is known.
  FilePull(const PullOptions& options, std::string url, const HubFile& file, fs::path target, int64_t most,
           Progress progress)
      : hub_(options.hub),
        url_(std::move(url)),
        file_(file),
        target_(std::move(target)),
        part_(target_.string() + "." +
              (resumable() ? file.checksum.hex.substr(0, kPartDigits) + ".part" : "part")),
        attempts_(options.attempts),
        most_(most),
        progress_(std::move(progress)) {}

  // Checks the file before it gets its name.
  FilePull& checked_by(const std::function<Status(const fs::path&)>& check) {
    check_ = check;
    return *this;
  }

  Status run() {
    std::error_code error;
    if (fs::exists(target_, error)) return check_existing();
    if (!resumable()) fs::remove(part_, error);
    const bool resumed = size_or_zero(part_) > 0;
    Status fetched = fetch();
    if (fetched.ok()) fetched = verify();
    if (!fetched.ok() && resumed && fetched.error().kind == ErrorKind::corrupt) {
      fs::remove(part_, error);  // what was there before may be to blame
      fetched = fetch();
      if (fetched.ok()) fetched = verify();
    }
    FULMAR_TRY(fetched);
    FULMAR_TRY(check_kind());
    return move_into_place();
  }

 private:
  // Returns whether a part may be continued: only a checksum shows that it belongs to this content.
  bool resumable() const { return file_.checksum.kind != Checksum::Kind::none; }

  Status check_existing() const {
    const int64_t size = size_or_zero(target_);
    const bool same = (file_.size < 0 || size == file_.size) && check_file(target_, file_.checksum).ok();
    if (same) return {};
    return Error{
        ErrorKind::conflict,
        fmt::format("{} is there already, with {} bytes of other content; wanted {} bytes: choose another "
                    "name with --as",
                    target_.string(), size, file_.size)};
  }

  // Fetches until the part is complete; gives up after several attempts in a row without a byte.
  Status fetch() {
    auto pause = kFirstPause;
    for (int tries = attempts_;;) {
      int64_t have = size_or_zero(part_);
      if (file_.size >= 0 && have == file_.size && have > 0) return {};
      if (file_.size >= 0 && have > file_.size) have = 0;
      FULMAR_TRY(check_total(file_.size, most_));
      FULMAR_TRY(check_space(target_.parent_path(), file_.size - have));
      const Attempt attempt = fetch_part(hub_, url_, part_, {have, file_.size, most_}, progress_);
      if (attempt.end == Attempt::End::complete) return {};
      if (attempt.end == Attempt::End::refused) return attempt.error;
      if (stopped()) return attempt.error;
      const bool moved = size_or_zero(part_) >= have + kWorthwhile;
      tries = moved ? attempts_ : tries - 1;
      if (tries == 0) return attempt.error;
      if (moved) pause = kFirstPause;
      spdlog::warn("{}; trying again", attempt.error.text);
      rest(pause);
      if (stopped()) return attempt.error;
      pause *= 2;
    }
  }

  bool stopped() const { return hub_.stopped && hub_.stopped(); }

  void rest(std::chrono::milliseconds pause) const {
    const auto end = std::chrono::steady_clock::now() + pause;
    while (!stopped() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(kGlance);
  }

  Status verify() const {
    const Status checked = check_file(part_, file_.checksum);
    if (checked.ok()) return {};
    if (checked.error().kind != ErrorKind::corrupt) return checked;
    std::error_code error;
    fs::remove(part_, error);  // not to be resumed
    return Error{ErrorKind::corrupt, url_ + ": " + checked.error().text};
  }

  Status check_kind() const {
    const Status fits = check_ ? check_(part_) : Status();
    if (fits.ok()) return {};
    std::error_code error;
    fs::remove(part_, error);
    return Error{fits.error().kind,
                 fmt::format("{} is no model and was removed: {}", url_, fits.error().text)};
  }

  Status move_into_place() const {
    sync_to_disk(part_);
    std::error_code error;
    fs::rename(part_, target_, error);
    if (error) return Error{ErrorKind::io, target_.string() + ": " + error.message()};
    sync_to_disk(target_.parent_path());
    return {};
  }

  const HubAccess& hub_;
  const std::string url_;
  const HubFile& file_;
  const fs::path target_, part_;
  const int attempts_;
  const int64_t most_;
  const Progress progress_;
  std::function<Status(const fs::path&)> check_;
};

// Returns all pages of the list. Follows only the hub's own pages, since its token is sent along.
Result<std::vector<HubFile>> list_files(const HubAccess& hub, const std::string& repository,
                                        const std::string& revision) {
  std::vector<HubFile> files;
  std::string url = hub.endpoint + "/api/models/" + repository + "/tree/" + revision + "?recursive=true";
  for (int pages = 0; !url.empty(); pages++) {
    if (pages == kMostPages) {
      return Error{ErrorKind::corrupt,
                   fmt::format("the hub's list of {} has more than {} pages", repository, kMostPages)};
    }
    FULMAR_ASSIGN(const Page page, fetch_page(hub, url));
    FULMAR_ASSIGN(const auto more, parse_listing(page.text));
    files.insert(files.end(), more.begin(), more.end());
    if (files.size() > kMostFiles) {
      return Error{ErrorKind::corrupt, fmt::format("the hub lists {} files of {}; wanted at most {}",
                                                   files.size(), repository, kMostFiles)};
    }
    url = next_page(page.link);
    if (!url.empty() && !url.starts_with(hub.endpoint + "/")) {
      return Error{ErrorKind::corrupt,
                   fmt::format("the hub's list goes on at {}; wanted {}/", url, hub.endpoint)};
    }
  }
  return files;
}

Status make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Error{ErrorKind::io, folder.string() + ": " + error.message()};
  return {};
}

// Fetches all files of a repository under their own names.
Result<Pulled> pull_folder(const PullPlan& plan, const fs::path& folder,
                           const std::function<Status(const HubFile&, const fs::path&)>& get) {
  FULMAR_TRY(make_folder(folder));
  Pulled pulled{.model = folder, .vocabulary = {}};
  for (const HubFile& file : plan.repository) {
    const fs::path target = folder / fs::path(file.path).filename();
    FULMAR_TRY(get(file, target));
    const std::string name = target.filename().string();
    if (name == "tokenizer.json" || name.find("vocab") != std::string::npos) pulled.vocabulary = target;
  }
  return pulled;
}

}  // namespace

Result<std::string> hub_endpoint(const std::string& flag, const char* environment) {
  std::string endpoint = !flag.empty() ? flag : environment != nullptr ? environment : "";
  if (endpoint.empty()) {
    return Error{ErrorKind::invalid, "no hub is named: give --endpoint https://HOST or set HF_ENDPOINT"};
  }
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (endpoint.starts_with("https://") || endpoint.starts_with("http://")) return endpoint;
  return Error{ErrorKind::invalid, "the hub is '" + endpoint + "'; wanted https://HOST or http://HOST"};
}

namespace {

Result<Pulled> pull_files(const HubName& name, const PullOptions& options, const PullProgress& progress) {
  const std::string base = options.hub.endpoint, revision = percent_encode(options.revision);
  const std::string repository = name.owner + "/" + name.name;
  FULMAR_ASSIGN(const auto files, list_files(options.hub, repository, revision));
  FULMAR_ASSIGN(const PullPlan plan, choose_files(name, files));
  int64_t left = options.most_bytes;
  const std::function<Status(const fs::path&)> unchecked;
  const auto get = [&](const HubFile& file, const fs::path& target) -> Status {
    const bool whole = &file == &plan.model;
    const std::string url = base + "/" + repository + "/resolve/" + revision + "/" + escaped(file.path);
    FULMAR_TRY(FilePull(options, url, file, target, left,
                        [&](int64_t bytes) { return progress(target.filename().string(), bytes, file.size); })
                   .checked_by(whole ? options.check_model : unchecked)
                   .run());
    left -= size_or_zero(target);
    return {};
  };
  if (!plan.repository.empty()) {
    FULMAR_ASSIGN(const std::string local, local_folder_name(name, options.as));
    FULMAR_ASSIGN(Pulled pulled, pull_folder(plan, options.folder / local, get));
    if (options.check_model) FULMAR_TRY(options.check_model(pulled.model));
    return pulled;
  }
  FULMAR_ASSIGN(const std::string local, local_model_name(name, plan.model.path, options.as));
  FULMAR_TRY(make_folder(options.folder));
  Pulled pulled{.model = options.folder / local, .vocabulary = {}};
  for (const HubFile& vocabulary :
       plan.vocabularies) {  // first: it is small, and a model without it is no use
    pulled.vocabulary = options.folder / local_vocabulary_name(vocabulary.path, local);
    FULMAR_TRY(get(vocabulary, *pulled.vocabulary));
  }
  FULMAR_TRY(get(plan.model, pulled.model));
  return pulled;
}

}  // namespace

Result<Pulled> pull(const HubName& name, const PullOptions& options, const PullProgress& progress) {
  FULMAR_ASSIGN(const Pulled pulled, pull_files(name, options, progress));
  std::error_code error;
  const bool folder = fs::is_directory(pulled.model, error);
  const fs::path local = folder ? pulled.model.filename() : pulled.model.stem();
  FULMAR_TRY(remember_pull(options.folder, name, local.string()));
  return pulled;
}

}  // namespace fulmar
