#include "hub/file_digest.h"

#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "hub/close_file.h"

namespace fulmar {
namespace {

constexpr size_t kBlock = size_t{1} << 20;

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

Result<std::string> file_digest(const std::filesystem::path& path, Checksum::Kind kind) {
  if (kind == Checksum::Kind::none) return std::string();
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  if (!file) return Error{ErrorKind::io, path.string() + ": " + std::strerror(errno)};
  bool fine = EVP_DigestInit_ex(context.get(), kind == Checksum::Kind::sha256 ? EVP_sha256() : EVP_sha1(),
                                nullptr) == 1;
  if (kind == Checksum::Kind::git_blob) {
    std::error_code unknown;
    const uintmax_t size = std::filesystem::file_size(path, unknown);
    if (unknown) return Error{ErrorKind::io, path.string() + ": " + unknown.message()};
    const std::string head = "blob " + std::to_string(size) + '\0';
    fine = fine && EVP_DigestUpdate(context.get(), head.data(), head.size()) == 1;
  }
  std::vector<unsigned char> block(kBlock);
  for (size_t read; (read = std::fread(block.data(), 1, block.size(), file.get())) > 0;) {
    fine = fine && EVP_DigestUpdate(context.get(), block.data(), read) == 1;
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  fine = fine && EVP_DigestFinal_ex(context.get(), digest, &length) == 1;
  if (std::ferror(file.get()) != 0 || !fine)
    return Error{ErrorKind::io, path.string() + " cannot be read to its end"};
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < length; i++) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

Status check_file(const std::filesystem::path& file, const Checksum& wanted) {
  FULMAR_ASSIGN(const std::string found, file_digest(file, wanted.kind));
  if (found == wanted.hex) return {};
  return Error{ErrorKind::corrupt, "the checksum is " + found + "; wanted " + wanted.hex};
}

}  // namespace fulmar
