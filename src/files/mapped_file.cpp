// The mappings of this process, and the handling of a page that cannot be read.
#include "files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "base/descriptor.h"
#include "base/exit_codes.h"

namespace fulmar {
namespace {

Error system_error(const std::filesystem::path& path, std::string_view what) {
  const ErrorKind kind = errno == ENOENT || errno == ENOTDIR ? ErrorKind::not_found : ErrorKind::io;
  return {kind, fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno))};
}

thread_local FileWatch* watching = nullptr;

constexpr size_t kMostPlaces = 2048;
constexpr size_t kMostPath = 512;  // bytes that an error shows

}  // namespace

// Read by the handler of a signal, so that nothing in it may be waited for or allocated.
struct MappedFile::Mapping {
  std::atomic<uintptr_t> begin{0}, end{0};  // 0: free
  std::atomic<FileWatch*> watch{nullptr};
  std::atomic<bool> lost{false};
  std::array<char, kMostPath> path{};
};

namespace {

std::mutex places_mutex;

// Returns the places, which are never freed: a signal may come until the end of the process.
template <class Mapping>
std::array<Mapping, kMostPlaces>& all_places() {
  static auto* const places = new std::array<Mapping, kMostPlaces>;
  return *places;
}

// Writes to stderr; ignores errors, which cannot be reported anywhere.
void say(const char* text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, ::strlen(text));
}

// Maps zeros from the page of `address` to the end of the mapping. Returns whether that worked.
bool put_zeros(uintptr_t address, uintptr_t end) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  void* const from = reinterpret_cast<void*>(address / page * page);
  const size_t bytes = end - address / page * page;
  return ::mmap(from, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

// Handles SIGBUS, with only such calls as a handler may make.
template <class Mapping>
void on_lost_page(int number, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Mapping& place : all_places<Mapping>()) {
    const uintptr_t begin = place.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= place.end) continue;
    place.lost = true;
    if (place.watch.load() != nullptr && put_zeros(address, place.end)) return;
    say("fulmar: ");
    say(place.path.data());
    say(" was shortened, or cannot be read, while it is in use; replace model files by renaming\n");
    ::_exit(kFileLostExit);
  }
  ::signal(number, SIG_DFL);  // not of a file of ours: raised again by the same access
}

template <class Mapping>
void install_handler() {
  all_places<Mapping>();
  struct sigaction action {};
  action.sa_sigaction = on_lost_page<Mapping>;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

MappedFile::Mapping* MappedFile::take_place(ByteSpan bytes, const std::filesystem::path& path) {
  static std::once_flag installed;
  std::call_once(installed, install_handler<Mapping>);
  const std::lock_guard lock(places_mutex);
  auto& places = all_places<Mapping>();
  const auto free =
      std::find_if(places.begin(), places.end(), [](const Mapping& place) { return place.begin == 0; });
  if (free == places.end()) return nullptr;
  free->path = {};
  path.string().copy(free->path.data(), kMostPath - 1);
  free->watch = watching;
  free->lost = false;
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  free->end = begin + bytes.size();
  free->begin.store(begin, std::memory_order_release);
  return &*free;
}

FileWatch::FileWatch() : outer_(watching) { watching = this; }

FileWatch::~FileWatch() {
  (void)settle();
  watching = outer_;
}

Status FileWatch::settle() {
  const std::lock_guard lock(places_mutex);
  for (MappedFile::Mapping& place : all_places<MappedFile::Mapping>()) {
    if (place.begin == 0 || place.watch != this) continue;
    place.watch = nullptr;
    if (place.lost) lost_ = place.path.data();
  }
  if (lost_.empty()) return {};
  return Error{ErrorKind::io,
               fmt::format("{}: was shortened, or could not be read, while it was loaded; replace "
                           "model files by renaming",
                           lost_)};
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK keeps a named pipe from blocking here; it has no effect on regular files.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) return system_error(path, "cannot open");
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) return system_error(path, "cannot read its size");
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorKind::invalid, fmt::format("{}: is not a regular file", path.string())};
  }
  if (status.st_size == 0) return Error{ErrorKind::corrupt, fmt::format("{}: is empty", path.string())};
  const auto size = static_cast<size_t>(status.st_size);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (memory == MAP_FAILED) return system_error(path, "cannot map");
  const ByteSpan bytes(static_cast<const std::byte*>(memory), size);
  return std::shared_ptr<const MappedFile>(new MappedFile(bytes, take_place(bytes, path)));
}

MappedFile::~MappedFile() {
  if (place_) {
    const std::lock_guard lock(places_mutex);
    FileWatch* const watch = place_->watch;
    if (place_->lost && watch != nullptr) watch->lost_ = place_->path.data();
    place_->begin = 0;
  }
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::release(ByteSpan part) const {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const auto last = (reinterpret_cast<uintptr_t>(part.data()) + part.size()) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace fulmar
