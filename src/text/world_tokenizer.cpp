// Longest match by trie, bytes by table.
#include "text/world_tokenizer.h"

#include <algorithm>

#include "base/meter.h"

namespace fulmar {

WorldTokenizer::WorldTokenizer(const Vocabulary& vocabulary, bool is_world) : is_world_(is_world) {
  size_t total = 0;
  int32_t highest = -1;
  for (const VocabularyEntry& entry : vocabulary.entries) {
    total += entry.bytes.size();
    highest = std::max(highest, entry.id);
  }
  pool_.reserve(total);
  places_.resize(static_cast<size_t>(highest) + 1);
  std::vector<ByteTrie::Key> keys;
  keys.reserve(vocabulary.entries.size());
  for (const VocabularyEntry& entry : vocabulary.entries) {
    places_[static_cast<size_t>(entry.id)] = {pool_.size(), entry.bytes.size()};
    pool_ += entry.bytes;
    keys.push_back({entry.bytes, entry.id});
  }
  trie_ = ByteTrie(std::move(keys));
}

void WorldTokenizer::encode(std::string_view bytes, std::vector<int32_t>& out) const {
  while (!bytes.empty()) {
    const ByteTrie::Match match = trie_.longest_match(bytes);
    count_work(match.looked_at);
    if (match.length > 0) out.push_back(match.id);
    bytes.remove_prefix(std::max<size_t>(match.length, 1));
  }
}

std::string_view WorldTokenizer::bytes(int32_t id) const {
  if (id < 0 || id >= vocabulary_size()) return {};
  const TokenBytes& place = places_[static_cast<size_t>(id)];
  return std::string_view(pool_).substr(place.begin, place.length);
}

std::optional<int32_t> WorldTokenizer::eos() const {
  if (!bytes(0).empty()) return std::nullopt;
  return 0;
}

}  // namespace fulmar
