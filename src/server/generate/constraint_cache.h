// A cache of compiled constraints, separate for each owner: a shared one would reveal by its speed what
// others have compiled. Knows nothing of requests and schemas.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "grammar/constraint.h"
#include "server/models/served_model.h"

namespace fulmar {

// A constraint, and what was loosened for it: see Loosened::texts.
struct CompiledRules {
  std::shared_ptr<Constraint> constraint;  // null: any text
  std::vector<std::string> warnings;
};

// Thread-safe. Holds the latest constraints of each owner within a bound per owner. Beyond the bound for all
// owners together, the owner that holds most loses its oldest.
class ConstraintCache {
 public:
  struct Bound {
    size_t entries;
    size_t bytes;  // about; what a constraint holds grows with its use
  };
  static constexpr Bound kOfOne = {16, size_t{64} << 20};
  static constexpr Bound kOfAll = {1024, size_t{512} << 20};

  explicit ConstraintCache(Bound of_one = kOfOne, Bound of_all = kOfAll) : of_one_(of_one), of_all_(of_all) {}

  // Returns what this owner has kept for the model under `key`, if it is remembered and not full.
  std::optional<CompiledRules> find(const std::string& owner, const ServedModelPtr& model,
                                    const std::string& key);
  // Remembers it, unless the owner is kNobody.
  void keep(const std::string& owner, const ServedModelPtr& model, std::string key, CompiledRules compiled);
  // Returns what is held for all owners.
  Bound held();

 private:
  struct CachedRules {
    std::string owner;
    std::weak_ptr<const ServedModel> model;
    std::string key;
    CompiledRules compiled;
    size_t bytes() const { return key.size() + compiled.constraint->bytes(); }
  };

  Bound held_by(const std::string* owner) const;
  void drop_oldest_of(const std::string& owner);
  std::string largest_owner(bool by_bytes) const;
  void shrink(const std::string& owner);

  const Bound of_one_;
  const Bound of_all_;
  std::mutex mutex_;
  std::list<CachedRules> entries_;  // the latest first
};

}  // namespace fulmar
