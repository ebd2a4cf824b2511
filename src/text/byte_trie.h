// A map from byte strings to ids that finds the longest key at the start of a text: a double-array trie.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace fulmar {

class ByteTrie {
 public:
  struct Key {
    std::string_view bytes;  // at least one byte
    int32_t id = 0;          // 0 or above
  };
  struct Match {
    int32_t id = -1;       // -1: no key fits
    size_t length = 0;     // bytes of the key
    size_t looked_at = 0;  // bytes of the text
  };

  ByteTrie() : ByteTrie(std::vector<Key>{}) {}
  // Builds the trie from distinct keys. Time and memory are proportional to their bytes, whatever these are.
  explicit ByteTrie(std::vector<Key> keys);

  Match longest_match(std::string_view text) const {
    Match best;
    int32_t unit = kRoot;
    size_t i = 0;
    for (; i < text.size(); ++i) {
      const int32_t next = units_[static_cast<size_t>(unit)].base + static_cast<unsigned char>(text[i]);
      if (units_[static_cast<size_t>(next)].parent != unit) break;
      unit = next;
      if (units_[static_cast<size_t>(unit)].id >= 0) best = {units_[static_cast<size_t>(unit)].id, i + 1, 0};
    }
    best.looked_at = i + 1;
    return best;
  }

 private:
  static constexpr int32_t kRoot = 0;

  // The child of unit u for byte c is unit base(u) + c, if that unit's parent is u.
  struct Unit {
    int32_t base = 0;     // 0 for leaves: the first 256 units are nobody's children
    int32_t parent = -1;  // -1: nobody's
    int32_t id = -1;      // -1: no key ends here
  };

  friend class ByteTrieBuilder;

  std::vector<Unit> units_;
};

}  // namespace fulmar
