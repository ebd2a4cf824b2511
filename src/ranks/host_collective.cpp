#include "ranks/host_collective.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>

#include "base/check.h"
#include "ops/device.h"
#include "tensor/convert.h"

namespace fulmar {

namespace {

// What a rank contributes to a meeting.
struct Brought {
  std::vector<float> numbers;
  int64_t first = 0;  // first column, in a gather
};

// State shared by a group's ranks: how often each has come, and what it contributed. Contributions are
// double-buffered, because a rank may write its next while another still reads its last; it cannot be two
// ahead, since it would have to pass a meeting that the other has not come to.
class Rendezvous {
 public:
  Rendezvous(std::span<Ops* const> group, std::chrono::milliseconds timeout)
      : timeout_(timeout), came_(group.size(), 0) {
    for (const Ops* ops : group) names_.push_back(ops->name());
    for (auto& set : brought_) set.resize(group.size());
  }

  size_t size() const { return came_.size(); }
  // Returns the contribution that a rank fills for its next meeting; brought() returns all contributions to
  // the last one that it came to.
  Brought& to_bring(size_t rank) { return brought_[static_cast<size_t>(came_[rank] % 2)][rank]; }
  const std::vector<Brought>& brought(size_t rank) const {
    return brought_[static_cast<size_t>((came_[rank] - 1) % 2)];
  }

  // Waits until all ranks have come as often as this one.
  void come(size_t rank) {
    std::unique_lock lock(mutex_);
    const int64_t times = ++came_[rank];
    changed_.notify_all();
    const auto all_came = [&] { return closed_ || *std::min_element(came_.begin(), came_.end()) >= times; };
    if (!changed_.wait_for(lock, timeout_, all_came)) throw DeviceFailure(missing(rank, times));
    if (closed_) throw DeviceFailure(reason_);
  }

  void close(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (!closed_) reason_ = reason;
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::string missing(size_t rank, int64_t times) const {
    std::string late;
    for (size_t i = 0; i < came_.size(); i++) {
      if (came_[i] < times)
        late += (late.empty() ? "rank " : ", rank ") + std::to_string(i) + " (" + names_[i] + ")";
    }
    return "rank " + std::to_string(rank) + " (" + names_[rank] + ") has waited " +
           std::to_string(timeout_.count()) + " ms for " + late + " to add its slice";
  }

  const std::chrono::milliseconds timeout_;
  std::vector<std::string> names_;
  std::vector<Brought> brought_[2];  // of each rank
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int64_t> came_;  // each rank writes its own under the mutex, and reads it without
  bool closed_ = false;
  std::string reason_;
};

class HostCollective final : public Collective {
 public:
  HostCollective(std::shared_ptr<Rendezvous> meeting, size_t rank, Ops& ops)
      : meeting_(std::move(meeting)), rank_(rank), ops_(ops) {}

  int64_t rank() const override { return static_cast<int64_t>(rank_); }
  int64_t size() const override { return static_cast<int64_t>(meeting_->size()); }
  bool recordable() const override { return false; }

  void add_sum(Tensor partial, Tensor x) override {
    FULMAR_CHECK(x.dtype == DType::f32 && x.contiguous() && partial.contiguous());
    bring(partial);
    if (x.rows == 1) join_parts(meeting_->to_bring(rank_).numbers, x.count());
    FULMAR_CHECK(meeting_->to_bring(rank_).numbers.size() == static_cast<size_t>(x.count()));
    meeting_->come(rank_);
    numbers_.resize(static_cast<size_t>(x.count()));
    ops_.read(numbers_.data(), x.data, numbers_.size() * sizeof(float));
    const auto& brought = meeting_->brought(rank_);
    for (size_t i = 0; i < numbers_.size(); i++) {
      float sum = 0;
      for (const Brought& one : brought) sum += one.numbers[i];
      numbers_[i] += sum;
    }
    ops_.write(x.data, numbers_.data(), numbers_.size() * sizeof(float));
  }

  void gather(Tensor part, int64_t first, Tensor whole) override {
    FULMAR_CHECK(part.dtype == DType::f32 && part.contiguous());
    bring(part);
    meeting_->to_bring(rank_).first = first;
    meeting_->come(rank_);
    if (rank_ != 0) return;
    numbers_.resize(static_cast<size_t>(whole.count()));
    for (const Brought& one : meeting_->brought(rank_)) {
      const int64_t cols = static_cast<int64_t>(one.numbers.size()) / whole.rows;
      for (int64_t row = 0; row < whole.rows; row++) {
        std::copy_n(one.numbers.data() + row * cols, cols, numbers_.data() + row * whole.cols + one.first);
      }
    }
    ops_.write(whole.data, numbers_.data(), numbers_.size() * sizeof(float));
  }

  void meet() override {}
  void check() override {}
  void close(const std::string& reason) override { meeting_->close(reason); }

 private:
  void bring(const Tensor& tensor) {
    stored_.resize(static_cast<size_t>(tensor.count()) * size_of(tensor.dtype));
    ops_.read(stored_.data(), tensor.data, stored_.size());
    std::vector<float>& own = meeting_->to_bring(rank_).numbers;
    own.resize(static_cast<size_t>(tensor.count()));
    to_f32(tensor.dtype, stored_.data(), own);
  }

  // Adds up partial sums of `count` numbers each.
  static void join_parts(std::vector<float>& parts, int64_t count) {
    const auto each = static_cast<size_t>(count);
    for (size_t i = each; i < parts.size(); i++) parts[i % each] += parts[i];
    parts.resize(std::min(each, parts.size()));
  }

  const std::shared_ptr<Rendezvous> meeting_;
  const size_t rank_;
  Ops& ops_;
  std::vector<std::byte> stored_;
  std::vector<float> numbers_;
};

}  // namespace

std::vector<std::unique_ptr<Collective>> make_host_collectives(std::span<Ops* const> group,
                                                               const CollectiveOptions& options) {
  const auto meeting = std::make_shared<Rendezvous>(group, options.timeout);
  std::vector<std::unique_ptr<Collective>> ends;
  for (size_t rank = 0; rank < group.size(); rank++) {
    ends.push_back(std::make_unique<HostCollective>(meeting, rank, *group[rank]));
  }
  return ends;
}

}  // namespace fulmar
