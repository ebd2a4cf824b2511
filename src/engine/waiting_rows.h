// Rows that have had no slot yet, in order of arrival, with sums that are kept as rows come and go: what
// waits costs a step nothing, however much it is. The engine thread owns it.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/function_ref.h"
#include "engine/sequence.h"
#include "engine/stats.h"

namespace fulmar {

using SequencePtr = std::unique_ptr<Sequence>;

// What a waiting row takes of host memory, about.
int64_t bytes_of(const Ask& ask);

class WaitingRows {
 public:
  // What became of a row that was offered.
  enum class Offer : uint8_t {
    taken,   // it is gone
    passed,  // it cannot start yet; others may
    closed,  // nobody can start any more
  };
  // One offering looks at so many rows at most, and the next one goes on behind them.
  static constexpr size_t kMostLooks = 256;

  // Rows of one request that is not waiting yet, at least one.
  void add(std::vector<SequencePtr> rows);
  // Takes all rows of the request that still wait.
  std::vector<SequencePtr> take(const RequestRecord& request);
  std::vector<SequencePtr> take_all();
  // Offers rows in order of arrival; a row that is taken is moved from.
  void offer(FunctionRef<Offer(SequencePtr&)> offer);

  bool empty() const { return rows_ == 0; }
  int64_t rows() const { return rows_; }
  // The requests with waiting rows, oldest first, each with the sums over those rows.
  void each_request(FunctionRef<void(const RequestRecord&, const RequestStatus& sums)> visit) const;

 private:
  struct Waiting {
    std::shared_ptr<RequestRecord> request;
    std::deque<SequencePtr> rows;
    RequestStatus sums;
  };
  using Queue = std::list<Waiting>;

  Queue::iterator forget(Queue::iterator place);  // and returns the next one

  Queue queue_;
  std::unordered_map<const RequestRecord*, Queue::iterator> place_;
  int64_t rows_ = 0;
  size_t passed_ = 0;  // rows at the front that the last offering has passed without reaching the end
};

}  // namespace fulmar
