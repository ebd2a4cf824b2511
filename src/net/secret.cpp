#include "net/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

namespace fulmar {

namespace {

unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

bool same_secret(std::string_view secret, std::string_view offered) {
  return !secret.empty() && secret.size() == offered.size() &&
         CRYPTO_memcmp(secret.data(), offered.data(), secret.size()) == 0;
}

std::string base64_of(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // and the zero that the library appends
  const int length = EVP_EncodeBlock(bytes_of(text), bytes_of(bytes), static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

std::string from_base64(std::string_view text) {
  std::string padded(text.substr(0, text.find_last_not_of('=') + 1));
  if (padded.find('=') != std::string::npos) return {};  // the library would read it as zeros
  const size_t padding = (4 - padded.size() % 4) % 4;
  if (padding == 3) return {};
  padded.append(padding, '=');
  std::string bytes(padded.size() / 4 * 3, '\0');
  const int length =
      EVP_DecodeBlock(bytes_of(bytes), bytes_of(std::string_view(padded)), static_cast<int>(padded.size()));
  if (length < static_cast<int>(padding)) return {};
  bytes.resize(static_cast<size_t>(length) - padding);
  return bytes;
}

}  // namespace fulmar
