// Rows that have had no slot yet, and the order in which they get one. Sums are updated as rows come and go,
// so waiting rows cost a step nothing. The engine thread owns it.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "engine/sequence.h"
#include "engine/stats.h"

namespace fulmar {

using SequencePtr = std::unique_ptr<Sequence>;

// Returns about how many bytes of host memory a waiting row takes.
int64_t bytes_of(const Ask& ask);

// Owners take turns, one row each. Within an owner the oldest request and the one with the fewest prompt
// tokens take turns, so that neither waits for a request of thousands of rows, and requests of equal size
// start in order of arrival.
class WaitingRows {
 public:
  // The result of offering a row.
  enum class Offer : uint8_t {
    taken,   // it has started
    passed,  // it cannot start yet; others may
    closed,  // no row can start any more
  };
  // Most rows that one offer() looks at; the next one continues after them.
  static constexpr size_t kMostLooks = 256;

  // Adds the rows of a request that is not waiting yet, at least one.
  void add(std::vector<SequencePtr> rows);
  // Removes and returns all rows of the request that still wait.
  std::vector<SequencePtr> take(const RequestRecord& request);
  std::vector<SequencePtr> take_all();
  // Offers rows in turn; a row that is taken is moved from.
  void offer(FunctionRef<Offer(SequencePtr&)> offer);

  bool empty() const { return rows_ == 0; }
  int64_t rows() const { return rows_; }
  // Visits the requests with waiting rows, each owner's oldest first, with the sums over those rows.
  void each_request(FunctionRef<void(const RequestRecord&, const RequestStatus& sums)> visit) const;

 private:
  struct Waiting {
    std::shared_ptr<RequestRecord> request;
    uint64_t number = 0;  // order of arrival
    std::deque<SequencePtr> rows;
    RequestStatus sums;
    std::pair<int64_t, uint64_t> size() const { return {sums.prompt_tokens, number}; }
  };
  using Queue = std::list<Waiting>;
  // The row that is offered next; those before it were passed.
  struct NextRow {
    Queue::iterator request;
    size_t row = 0;
  };
  // One owner's requests.
  struct Lane {
    std::string owner;
    Queue queue;
    std::map<std::pair<int64_t, uint64_t>, Queue::iterator> by_size;
    bool least_next = false;       // next is the request with the fewest prompt tokens
    std::optional<NextRow> place;  // during offer(), and where the last one stopped looking; else begin
  };
  using Lanes = std::list<Lane>;
  enum class Turn : uint8_t { taken, nothing_to_take, out_of_looks, closed };
  struct Known {
    Lanes::iterator lane;
    Queue::iterator request;
  };

  Turn take_turn(Lane& lane, size_t& looks, FunctionRef<Offer(SequencePtr&)> offer);
  Offer look_at(Lane& lane, NextRow at, FunctionRef<Offer(SequencePtr&)> offer);
  void took(Lane& lane, NextRow at);
  void forget(Lane& lane, Queue::iterator request);

  Lanes lanes_;  // in the order of their turns
  std::unordered_map<const RequestRecord*, Known> known_;
  int64_t rows_ = 0;
  uint64_t arrivals_ = 0;
};

}  // namespace fulmar
