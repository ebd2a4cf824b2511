#include "cache/split_writes.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace fulmar {
namespace {

// Bytes of one transaction, which for a while is on the disk twice.
constexpr size_t kMostTogether = size_t{16} << 20;

size_t bytes_of(const SessionWrite& write) { return write.blob->payload.size(); }

class Splitter {
 public:
  explicit Splitter(const StoreTogether& store) : store_(store) {}

  void add(std::span<const SessionWrite> writes) {
    const auto hopeless = [&](const SessionWrite& write) {
      return failed_ || bytes_of(write) >= no_room_for_;
    };
    if (std::all_of(writes.begin(), writes.end(), hopeless)) {
      outcomes_.insert(outcomes_.end(), writes.size(), *why_);
      return;
    }
    const auto stored = store_(writes);
    if (stored.ok()) {
      outcomes_.insert(outcomes_.end(), stored->begin(), stored->end());
      return;
    }
    why_ = stored.error();
    if (why_->kind != ErrorKind::resource) {
      failed_ = true;
    } else if (writes.size() > 1) {
      add(writes.first(writes.size() / 2));
      return add(writes.subspan(writes.size() / 2));
    } else {
      no_room_for_ = bytes_of(writes.front());
    }
    outcomes_.insert(outcomes_.end(), writes.size(), *why_);
  }

  std::vector<Result<bool>> outcomes() && { return std::move(outcomes_); }

 private:
  const StoreTogether& store_;
  std::vector<Result<bool>> outcomes_;
  std::optional<Error> why_;  // the last failure
  bool failed_ = false;       // for another reason than room
  size_t no_room_for_ = std::numeric_limits<size_t>::max();
};

}  // namespace

std::vector<std::span<const SessionWrite>> pieces_of(std::span<const SessionWrite> writes,
                                                     size_t most_bytes) {
  std::vector<std::span<const SessionWrite>> pieces;
  size_t begin = 0, bytes = 0;
  for (size_t i = 0; i < writes.size(); ++i) {
    if (i > begin && bytes + bytes_of(writes[i]) > most_bytes) {
      pieces.push_back(writes.subspan(begin, i - begin));
      begin = i;
      bytes = 0;
    }
    bytes += bytes_of(writes[i]);
  }
  if (begin < writes.size()) pieces.push_back(writes.subspan(begin));
  return pieces;
}

std::vector<Result<bool>> store_what_fits(std::span<const SessionWrite> writes, const StoreTogether& store) {
  Splitter splitter(store);
  for (const auto piece : pieces_of(writes, kMostTogether)) splitter.add(piece);
  return std::move(splitter).outcomes();
}

}  // namespace fulmar
