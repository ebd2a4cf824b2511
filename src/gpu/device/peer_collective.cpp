#include "gpu/device/peer_collective.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <new>
#include <set>

#include "base/check.h"
#include "gpu/device/memory.h"
#include "gpu/device/peer_sum.h"
#include "gpu/device/sum_library.h"
#include "ops/device.h"

namespace fulmar::gpu {

namespace {

// Bound on the inboxes of one half together, hence on what one launch reduces.
constexpr int64_t kInboxBytes = int64_t{32} << 20;
constexpr int64_t kWord = sizeof(uint4);

// Returns the 16-byte words that one launch reduces: whole rows, counted as f32 (the widest type), at least
// one.
int64_t capacity_of(int64_t size, const CollectiveOptions& options) {
  const int64_t row = options.width * static_cast<int64_t>(sizeof(float));
  const int64_t most = std::max<int64_t>(1, kInboxBytes / size / row);
  return (std::min(most, options.rows) * row + kWord - 1) / kWord;
}

int64_t flagged_capacity_of(int64_t size, const CollectiveOptions& options) {
  return std::min(capacity_of(size, options), kMostFlaggedBytes / kWord);
}

// State shared by a group's ranks: each rank's buffers on its device, and how many calls each host thread has
// begun. Freed with the last rank.
class Shared {
 public:
  explicit Shared(std::span<const PeerEnd> group, std::chrono::milliseconds timeout)
      : ends(group.begin(), group.end()),
        timeout_(timeout),
        addends_(group.size()),
        begun_(group.size(), 0) {}

  PeerNews& news_of(size_t rank) const { return *static_cast<PeerNews*>(news[rank].data()); }

  // Waits until every rank has begun its calls up to number `call`, as this one has.
  void wait_for_all(size_t rank, int64_t call) {
    std::unique_lock lock(mutex_);
    begun_[rank] = call;
    changed_.notify_all();
    const auto all_begun = [&] { return closed_ || *std::min_element(begun_.begin(), begun_.end()) >= call; };
    if (!changed_.wait_for(lock, timeout_, all_begun)) {
      const auto late = std::min_element(begun_.begin(), begun_.end()) - begun_.begin();
      throw DeviceFailure(missing(rank, static_cast<size_t>(late)));
    }
    if (closed_) throw DeviceFailure(reason_);
  }
  void close(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (!closed_) reason_ = reason;
    closed_ = true;
    changed_.notify_all();
    for (size_t rank = 0; rank < ends.size(); rank++) news_of(rank).closed = 1;
    if (library) library->abort();
  }
  void refuse_closed() {
    const std::lock_guard lock(mutex_);
    if (closed_) throw DeviceFailure(reason_);
  }
  void register_addends(size_t rank, std::span<const Tensor> buffers) {
    const std::lock_guard lock(mutex_);
    addends_[rank].assign(buffers.begin(), buffers.end());
  }
  // Returns the address on rank `other` that corresponds to `addend` on `rank` (same offset, same registered
  // buffer), or null where `addend` lies in none.
  const void* addend_of(size_t other, size_t rank, const Tensor& addend) {
    const std::lock_guard lock(mutex_);
    const auto &own = addends_[rank], &others = addends_[other];
    for (size_t i = 0; i < std::min(own.size(), others.size()); i++) {
      const auto offset =
          static_cast<const std::byte*>(addend.data) - static_cast<const std::byte*>(own[i].data);
      const int64_t bytes = own[i].count() * static_cast<int64_t>(size_of(own[i].dtype));
      if (offset >= 0 && offset < bytes) return static_cast<const std::byte*>(others[i].data) + offset;
    }
    return nullptr;
  }
  std::string missing(size_t rank, size_t late) const {
    const auto text = [&](size_t one) { return "rank " + std::to_string(one) + " (" + ends[one].name + ")"; };
    return text(rank) + " has waited " + std::to_string(timeout_.count()) + " ms for " + text(late) +
           " to add its slice";
  }

  const std::vector<PeerEnd> ends;
  std::unique_ptr<SumLibrary> library;  // for sums by the vendor's library; else null
  std::vector<Buffer> inbox, mail, sums, flags, counts, news;

 private:
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<Tensor>> addends_;
  std::vector<int64_t> begun_;
  bool closed_ = false;
  std::string reason_;
};

class PeerEndCollective final : public PeerCollective {
 public:
  PeerEndCollective(std::shared_ptr<Shared> shared, size_t rank, const Peers& peers,
                    const CollectiveOptions& options, std::optional<SumWay> way)
      : shared_(std::move(shared)),
        rank_(rank),
        end_(shared_->ends[rank]),
        peers_(peers),
        options_(options),
        way_(way) {}

  int64_t rank() const override { return peers_.rank; }
  int64_t size() const override { return peers_.size; }
  bool recordable() const override { return true; }

  void add_sum(Tensor partial, Tensor x) override {
    shared_->refuse_closed();
    if (x.rows == 1 && partial.rows > 1) {
      peer_add_parts(end_.queue, peers_, partial, x);
      return launched();
    }
    const auto row = partial.cols * static_cast<int64_t>(size_of(partial.dtype));
    const SumWay way = way_of(partial.rows * row);
    const int64_t at_once = std::max<int64_t>(1, peers_.capacity * kWord / row);
    for (int64_t first = 0; first < partial.rows; first += at_once) {
      const int64_t rows = std::min(at_once, partial.rows - first);
      add_rows(partial.slice_rows(first, rows), x.slice_rows(first, rows), way);
    }
    launched();
  }

  void register_addends(std::span<const Tensor> buffers) override {
    shared_->register_addends(rank_, buffers);
  }

  std::optional<PeerPull> pull_of(const Tensor& addend) override {
    const int64_t bytes = addend.count() * static_cast<int64_t>(size_of(addend.dtype));
    if (way_ || !addend.contiguous() || !pulls_addends(peers_.size, bytes)) return {};
    shared_->refuse_closed();
    const void* const theirs = shared_->addend_of(1 - rank_, rank_, addend);
    if (theirs == nullptr) return {};
    return PeerPull{peers_, theirs};
  }

  void gather(Tensor part, int64_t first, Tensor) override {
    shared_->refuse_closed();
    FULMAR_CHECK(part.rows <= options_.gathered.rows);
    peer_gather(end_.queue, peers_, part, first, options_.gathered.slice_rows(0, part.rows));
    launched();
  }

  void meet() override {
    step_++;
    call_ = 0;
    shared_->wait_for_all(rank_, step_ * kCallsOfStep);
  }

  void check() override {
    if (const uint32_t missing = peers_.news->missing; missing != 0) {
      throw DeviceFailure(shared_->missing(rank_, missing - 1));
    }
  }

  void close(const std::string& reason) override { shared_->close(reason); }

  // Avoids a deadlock: a launch may hold a process-wide driver lock (as when a kernel is loaded). If rank A
  // holds it while its device waits for B's kernel, B cannot launch. So no rank makes another driver call
  // until all ranks have launched this all-reduce. While a graph is captured nothing runs: a replayed step is
  // one launch, and meet() after it suffices.
  void launched() override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    FULMAR_GPU(cudaStreamIsCapturing(end_.queue.stream, &status));
    if (status == cudaStreamCaptureStatusNone) shared_->wait_for_all(rank_, step_ * kCallsOfStep + ++call_);
  }

 private:
  static constexpr int64_t kCallsOfStep = int64_t{1} << 20;

  void add_rows(const Tensor& partial, const Tensor& x, SumWay way) {
    if (way != SumWay::library) return peer_add_sum(end_.queue, peers_, partial, x, way);
    const Tensor sum{peers_.sums[rank_], partial.dtype, partial.rows, partial.cols, partial.cols};
    shared_->library->sum(rank_, end_.queue, partial, sum);
    add_library_sum(end_.queue, sum, x);
  }

  SumWay way_of(int64_t bytes) const {
    const SumWay way = way_.value_or(sum_way(peers_.size, bytes));
    const bool fits = bytes <= peers_.flagged_capacity * kWord;
    return way == SumWay::flagged && !fits ? SumWay::one_shot : way;
  }

  const std::shared_ptr<Shared> shared_;
  const size_t rank_;
  const PeerEnd& end_;
  const Peers peers_;
  const CollectiveOptions options_;
  const std::optional<SumWay> way_;
  int64_t step_ = 0, call_ = 0;
};

Result<bool> reach_each_other(std::span<const PeerEnd> ends) {
  for (const PeerEnd& from : ends) {
    for (const PeerEnd& to : ends) {
      if (&from == &to) continue;
      FULMAR_ASSIGN(const bool reaches, enable_peer_access(from.device, to.device));
      if (!reaches) return false;
    }
  }
  return true;
}

std::unique_ptr<SumLibrary> open_library(std::span<const PeerEnd> ends) {
  std::vector<int> devices;
  std::vector<Queue> queues;
  for (const PeerEnd& end : ends) devices.push_back(end.device), queues.push_back(end.queue);
  return SumLibrary::open(devices, queues);
}

Result<Buffer> zeroed(const Queue& queue, size_t bytes) {
  FULMAR_ASSIGN(Buffer buffer, allocate_device(bytes));
  FULMAR_GPU_TRY(cudaMemsetAsync(buffer.data(), 0, bytes, queue.stream));
  FULMAR_GPU_TRY(cudaStreamSynchronize(queue.stream));
  return buffer;
}

}  // namespace

size_t peer_collective_bytes(int64_t size, const CollectiveOptions& options) {
  const int64_t words =
      2 * (size + 1) * capacity_of(size, options) + 4 * size * flagged_capacity_of(size, options);
  return static_cast<size_t>(words * kWord) + (kPeerFlags + kPeerCounts) * sizeof(uint32_t);
}

Result<std::vector<std::unique_ptr<Collective>>> open_peer_collectives(std::span<const PeerEnd> ends,
                                                                       const CollectiveOptions& options,
                                                                       std::optional<SumWay> way) {
  std::vector<std::unique_ptr<Collective>> group;
  std::set<int> devices;
  for (const PeerEnd& end : ends) devices.insert(end.device);
  if (ends.empty() || ends.size() > kMostPeers || devices.size() < ends.size()) return group;
  FULMAR_ASSIGN(const bool reach, reach_each_other(ends));
  if (!reach) return group;

  const auto shared = std::make_shared<Shared>(ends, options.timeout);
  if (way == SumWay::library) {
    shared->library = open_library(ends);
    if (!shared->library) return group;
  }
  Peers all{.size = static_cast<int>(ends.size())};
  all.capacity = capacity_of(all.size, options);
  all.flagged_capacity = flagged_capacity_of(all.size, options);
  all.timeout = static_cast<uint64_t>(options.timeout.count()) * 1'000'000;
  const auto half = static_cast<size_t>(all.capacity * kWord);
  for (size_t rank = 0; rank < ends.size(); rank++) {
    const Queue& queue = ends[rank].queue;
    FULMAR_GPU_TRY(cudaSetDevice(ends[rank].device));
    const auto add = [&](std::vector<Buffer>& to, size_t bytes) -> Status {
      FULMAR_ASSIGN(Buffer buffer, zeroed(queue, bytes));
      to.push_back(std::move(buffer));
      return {};
    };
    FULMAR_TRY(add(shared->inbox, 2 * ends.size() * half));
    FULMAR_TRY(add(shared->mail, 4 * ends.size() * static_cast<size_t>(all.flagged_capacity * kWord)));
    FULMAR_TRY(add(shared->sums, 2 * half));
    FULMAR_TRY(add(shared->flags, kPeerFlags * sizeof(uint32_t)));
    FULMAR_TRY(add(shared->counts, kPeerCounts * sizeof(uint32_t)));
    FULMAR_ASSIGN(Buffer news, allocate_pinned(sizeof(PeerNews)));
    new (news.data()) PeerNews{0, 0};
    shared->news.push_back(std::move(news));
    all.inbox[rank] = static_cast<uint4*>(shared->inbox.back().data());
    all.mail[rank] = static_cast<uint4*>(shared->mail.back().data());
    all.sums[rank] = static_cast<uint4*>(shared->sums.back().data());
    all.flags[rank] = static_cast<uint32_t*>(shared->flags.back().data());
  }
  for (size_t rank = 0; rank < ends.size(); rank++) {
    Peers own = all;
    own.rank = static_cast<int>(rank);
    own.counts = static_cast<uint32_t*>(shared->counts[rank].data());
    own.news = &shared->news_of(rank);
    group.push_back(std::make_unique<PeerEndCollective>(shared, rank, own, options, way));
  }
  return group;
}

}  // namespace fulmar::gpu
