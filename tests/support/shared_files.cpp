#include "support/shared_files.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <fstream>

#include "support/folders.h"

namespace fulmar::support {

std::filesystem::path shared_folder() { return source_folder() / ".." / "shared"; }

Json read_golden(const std::string& name) {
  std::ifstream file(shared_folder() / "golden" / (name + ".json"));
  return file ? Json::parse(file) : Json();
}

std::vector<std::byte> from_base64(std::string_view text) {
  std::vector<std::byte> bytes(text.size() / 4 * 3);
  const int length =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  EXPECT_EQ(length, static_cast<int>(bytes.size())) << "broken base64";
  while (!bytes.empty() && text.ends_with('=')) {
    text.remove_suffix(1);
    bytes.pop_back();
  }
  return bytes;
}

}  // namespace fulmar::support
