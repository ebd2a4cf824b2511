// HMAC through OpenSSL.
#include "net/worker_proof.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <span>

#include "base/check.h"

namespace fulmar {
namespace {

constexpr size_t kRandomBytes = 32;

std::string hex_of(std::span<const unsigned char> bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

}  // namespace

std::string random_hex() {
  std::array<unsigned char, kRandomBytes> bytes{};
  FULMAR_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1);
  return hex_of(bytes);
}

bool is_challenge(std::string_view text) {
  return text.size() == 2 * kRandomBytes &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string worker_proof(std::string_view token, std::string_view challenge) {
  if (token.empty()) return {};
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  const auto* const data = reinterpret_cast<const unsigned char*>(challenge.data());
  FULMAR_CHECK(HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()), data, challenge.size(),
                    digest.data(), &length) != nullptr);
  return hex_of(std::span(digest.data(), length));
}

// Puts a word before the target, so that no proof of a challenge, which is hexadecimal digits alone, is one.
std::string search_proof(std::string_view token, std::string_view target) {
  return worker_proof(token, "search " + std::string(target));
}

}  // namespace fulmar
