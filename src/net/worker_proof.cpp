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

std::string hex_of(std::span<const unsigned char> bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

}  // namespace

std::string random_hex() {
  std::array<unsigned char, 32> bytes{};
  FULMAR_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1);
  return hex_of(bytes);
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

}  // namespace fulmar
