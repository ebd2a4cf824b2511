// Hands out branch indices.
#include "server/native/branch_indices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cache/session_name.h"

namespace fulmar {

std::string branch_session(const std::string& tree, int64_t index) {
  return fmt::format("{}:{}", tree, index);
}

int64_t branch_index(const std::string& session, const std::string& tree) {
  if (session.size() < tree.size() + 2 || !session.starts_with(tree) || session[tree.size()] != ':')
    return -1;
  int64_t index = -1;
  const char* end = session.data() + session.size();
  const auto [stop, fault] = std::from_chars(session.data() + tree.size() + 1, end, index);
  const bool is_number = fault == std::errc() && stop == end && index >= 0 && index <= kLastBranch;
  return is_number && session == branch_session(tree, index) ? index : -1;
}

BranchIndices::Lease::Lease(std::shared_ptr<BranchIndices> indices, std::string key, std::string tree,
                            int64_t index)
    : indices_(std::move(indices)), key_(std::move(key)), tree_(std::move(tree)), index_(index) {}

BranchIndices::Lease::~Lease() {
  std::lock_guard lock(indices_->mutex_);
  const auto held = indices_->held_.find(key_);
  held->second.erase(index_);
  if (held->second.empty()) indices_->held_.erase(held);
}

// Takes the next index. An index that is given back meanwhile has been stored by then or never will be, so
// the highest stored one that is found afterwards is right. `mutex_` is not held during that search: it waits
// for the engine, whose thread gives indices back.
Result<std::shared_ptr<const BranchIndices::Lease>> BranchIndices::take(
    const Owner& owner, const std::string& tree, const std::function<Result<int64_t>()>& highest_stored) {
  const std::string key = session_text(owner.name, tree);
  std::lock_guard one_at_a_time(taking_);
  int64_t highest = 0;
  {
    std::lock_guard lock(mutex_);
    const auto held = held_.find(key);
    if (held != held_.end()) highest = *held->second.rbegin();
  }
  FULMAR_ASSIGN(const int64_t stored, highest_stored());
  highest = std::max(highest, stored);
  if (highest >= kLastBranch) return std::shared_ptr<const Lease>();
  std::lock_guard lock(mutex_);
  held_[key].insert(highest + 1);
  return std::shared_ptr<const Lease>(
      std::make_shared<const Lease>(shared_from_this(), key, tree, highest + 1));
}

void BranchIndices::name(const std::string& request_id, const std::shared_ptr<const Lease>& lease) {
  std::lock_guard lock(mutex_);
  std::erase_if(named_, [](const auto& named) { return named.second.expired(); });
  named_[request_id] = lease;
}

std::shared_ptr<const BranchIndices::Lease> BranchIndices::held_by(const std::string& request_id) {
  std::lock_guard lock(mutex_);
  const auto found = named_.find(request_id);
  return found == named_.end() ? nullptr : found->second.lock();
}

}  // namespace fulmar
