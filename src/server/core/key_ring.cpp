// Accounts and their limits.
#include "server/core/key_ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace fulmar {
namespace {

// No key is as long as this; what is longer is not even hashed.
constexpr size_t kLongestOffer = 512;

bool fits(const std::string& pattern, std::string_view path, Grant grant) {
  if (!is_route_pattern(pattern)) return path == pattern;
  return grant != Grant::by_name && path.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
}

}  // namespace

bool KeyAccount::opens_locked(std::string_view path, Grant grant) const {
  if (key_.admin) return true;
  if (key_.routes.empty()) return grant == Grant::unsaid;
  return std::any_of(key_.routes.begin(), key_.routes.end(),
                     [&](const std::string& pattern) { return fits(pattern, path, grant); });
}

bool KeyAccount::opens(std::string_view path, Grant grant) const {
  std::lock_guard lock(mutex_);
  return opens_locked(path, grant);
}

bool KeyAccount::administers() const {
  std::lock_guard lock(mutex_);
  return key_.admin;
}

KeyAccount::KeyAccount(ApiKey key, Clock::time_point now)
    : key_(std::move(key)), requests_(key_.requests_per_minute, now), tokens_(key_.tokens_per_minute, now) {}

void KeyAccount::change(ApiKey key, Clock::time_point now) {
  std::lock_guard lock(mutex_);
  key_ = std::move(key);
  requests_.change(key_.requests_per_minute, now);
  tokens_.change(key_.tokens_per_minute, now);
}

ApiError KeyAccount::refuse(std::string text, double wait_seconds) {
  ++usage_.refused;
  ApiError error{429, std::move(text), {}, "rate_limit_exceeded", {}};
  error.retry_after = static_cast<int64_t>(std::ceil(std::max(1.0, wait_seconds)));
  return error;
}

std::optional<ApiError> KeyAccount::admit_request(std::string_view path, Grant grant, Clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (!opens_locked(path, grant)) {
    ++usage_.refused;
    return ApiError{
        403, fmt::format("The key '{}' does not open {}", key_.name, path), {}, "route_not_allowed", {}};
  }
  if (const double wait = requests_.wait_for(1, now); wait > 0) {
    return refuse(fmt::format("The key '{}' may send {} requests a minute; try again in {:.0f} s", key_.name,
                              key_.requests_per_minute, std::ceil(wait)),
                  wait);
  }
  // Charged afterwards: what is over the limit is waited for by the next request.
  if (const double wait = tokens_.wait_for(1, now); wait > 0) {
    return refuse(fmt::format("The key '{}' may use {} tokens a minute; try again in {:.0f} s", key_.name,
                              key_.tokens_per_minute, std::ceil(wait)),
                  wait);
  }
  requests_.take(1, now);
  ++usage_.requests;
  return std::nullopt;
}

std::optional<ApiError> KeyAccount::admit_rows(int64_t rows, int64_t prompt_tokens, Clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (key_.max_rows > 0 && rows > key_.max_rows) {
    ++usage_.refused;
    return bad_value(
        fmt::format("{} rows; the key '{}' may have at most {} at once", rows, key_.name, key_.max_rows));
  }
  if (key_.max_rows > 0 && usage_.rows + rows > key_.max_rows) {
    return refuse(
        fmt::format("The key '{}' has {} rows under way and asks for {}; at most {} are allowed at once",
                    key_.name, usage_.rows, rows, key_.max_rows),
        1);
  }
  count_rows(rows, prompt_tokens, now);
  return std::nullopt;
}

void KeyAccount::take_up_rows(int64_t rows, int64_t prompt_tokens, Clock::time_point now) {
  std::lock_guard lock(mutex_);
  count_rows(rows, prompt_tokens, now);
}

// Adds to the usage and charges the token bucket. Call with `mutex_` held.
void KeyAccount::count_rows(int64_t rows, int64_t prompt_tokens, Clock::time_point now) {
  usage_.rows += rows;
  usage_.prompt_tokens += prompt_tokens;
  tokens_.take(static_cast<double>(prompt_tokens), now);
}

void KeyAccount::give_back_rows(int64_t rows) {
  std::lock_guard lock(mutex_);
  usage_.rows -= rows;
}

void KeyAccount::charge_generated(int64_t tokens, Clock::time_point now) {
  std::lock_guard lock(mutex_);
  usage_.generated_tokens += tokens;
  tokens_.take(static_cast<double>(tokens), now);
}

std::string KeyAccount::name() const {
  std::lock_guard lock(mutex_);
  return key_.name;
}

KeyUsage KeyAccount::usage() const {
  std::lock_guard lock(mutex_);
  return usage_;
}

std::optional<ApiError> refuse_revoked(const KeyAccountPtr& account) {
  if (!account || !account->revoked()) return std::nullopt;
  return ApiError{
      401, fmt::format("The key '{}' is no longer in force", account->name()), {}, "invalid_api_key", {}};
}

void KeyRing::replace(std::vector<ApiKey> keys, KeyAccount::Clock::time_point now) {
  std::unordered_map<std::string, std::shared_ptr<KeyAccount>> before;
  for (const auto& account : all()) before[account->name()] = account;
  std::unordered_map<std::string, std::shared_ptr<KeyAccount>> by_hash;
  for (ApiKey& key : keys) {
    std::string hash = key.hash;
    std::shared_ptr<KeyAccount> account;
    if (const auto kept = before.extract(key.name)) {
      account = kept.mapped();
      account->change(std::move(key), now);
    } else {
      account = std::make_shared<KeyAccount>(std::move(key), now);
    }
    by_hash[std::move(hash)] = account;
  }
  {
    std::lock_guard lock(mutex_);
    by_hash_.swap(by_hash);
  }
  for (const auto& [name, account] : before) account->revoke();
}

std::shared_ptr<KeyAccount> KeyRing::find(std::string_view offered) const {
  if (offered.empty() || offered.size() > kLongestOffer) return nullptr;
  const std::string hash = hash_of_key(offered);
  std::lock_guard lock(mutex_);
  const auto found = by_hash_.find(hash);
  return found == by_hash_.end() ? nullptr : found->second;
}

std::shared_ptr<KeyAccount> KeyRing::named(std::string_view name) const {
  std::lock_guard lock(mutex_);
  for (const auto& [hash, account] : by_hash_) {
    if (account->name() == name) return account;
  }
  return nullptr;
}

std::vector<std::shared_ptr<KeyAccount>> KeyRing::all() const {
  std::vector<std::shared_ptr<KeyAccount>> accounts;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [hash, account] : by_hash_) accounts.push_back(account);
  }
  std::sort(accounts.begin(), accounts.end(),
            [](const auto& a, const auto& b) { return a->name() < b->name(); });
  return accounts;
}

}  // namespace fulmar
