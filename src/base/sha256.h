// The checksum that tells known files and contents apart.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace fulmar {

// SHA-256 of bytes that come piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::string_view bytes);
  // Returns 64 lower-case hexadecimal digits, once; empty if the library refuses.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns SHA-256 as 64 lower-case hexadecimal digits; empty if the library refuses.
std::string sha256_hex(std::string_view bytes);

}  // namespace fulmar
