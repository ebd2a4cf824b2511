#include "files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fulmar {
namespace {

Error system_error(const std::filesystem::path& path, std::string_view what) {
  const ErrorKind kind = errno == ENOENT || errno == ENOTDIR ? ErrorKind::not_found : ErrorKind::io;
  return {kind, fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno))};
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

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
  return std::shared_ptr<const MappedFile>(new MappedFile(bytes));
}

MappedFile::~MappedFile() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

void MappedFile::release(ByteSpan part) const {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const auto last = (reinterpret_cast<uintptr_t>(part.data()) + part.size()) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace fulmar
