// The indices of the branches of a session tree (docs/http.md, "Branching sessions"): concurrent requests on
// one tree get different indices to store their states under. Knows no engine.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/owner.h"
#include "base/result.h"

namespace fulmar {

// The last index that a branch can have: clients name branches by 32-bit numbers.
inline constexpr int64_t kLastBranch = std::numeric_limits<int32_t>::max();

// Returns the id of the session that holds the state of a branch.
std::string branch_session(const std::string& tree, int64_t index);
// Returns the index, up to kLastBranch, of a session that is a branch of the tree; -1 for any other session.
int64_t branch_index(const std::string& session, const std::string& tree);

// Thread-safe.
class BranchIndices : public std::enable_shared_from_this<BranchIndices> {
 public:
  // Holds an index until it goes: for as long as the request may still store under it.
  class Lease {
   public:
    Lease(std::shared_ptr<BranchIndices> indices, std::string key, std::string tree, int64_t index);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    const std::string& tree() const { return tree_; }
    int64_t index() const { return index_; }

   private:
    const std::shared_ptr<BranchIndices> indices_;
    const std::string key_, tree_;
    const int64_t index_;
  };

  // Takes the index after all stored and all held ones of the owner's tree; the first is 1. Null when
  // kLastBranch is taken. `highest_stored` may wait for the engine; its Error is passed on.
  Result<std::shared_ptr<const Lease>> take(const Owner& owner, const std::string& tree,
                                            const std::function<Result<int64_t>()>& highest_stored);
  // Names the request that stores under an index, for as long as that is held.
  void name(const std::string& request_id, const std::shared_ptr<const Lease>& lease);
  // Returns what the request stores under; null where it does not.
  std::shared_ptr<const Lease> held_by(const std::string& request_id);

 private:
  std::mutex taking_;  // one at a time: what is held is looked at before what is stored
  std::mutex mutex_;   // guards what follows
  std::map<std::string, std::set<int64_t>> held_;  // by session_text() of the tree
  std::map<std::string, std::weak_ptr<const Lease>> named_;
};

}  // namespace fulmar
