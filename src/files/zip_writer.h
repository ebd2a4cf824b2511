// Writes a ZIP archive whose members are stored, not compressed, as zip.h reads them.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "files/bytes.h"

namespace fulmar {

class ZipWriter {
 public:
  // Writes to `out`. Sizes, offsets and counts of members from `least_zip64` on are written in ZIP64 records;
  // tests lower it.
  explicit ZipWriter(std::ostream& out, uint64_t least_zip64 = UINT32_MAX)
      : out_(out), least_zip64_(least_zip64) {}

  // Writes a member, its payload at a multiple of 64 bytes so that a mapped file can be used in place.
  void add(std::string_view name, ByteSpan content);
  // Writes the directory, which completes the archive.
  void finish();

 private:
  struct WrittenMember {
    std::string name;
    uint32_t crc = 0;
    uint64_t size = 0, local = 0;  // local: where its header begins
  };

  void write(std::string_view bytes);
  std::string directory_entry(const WrittenMember& entry) const;
  // Returns a field of 32 bits, or for a larger number the mark that it follows in `extra`.
  std::string number_or_zip64(uint64_t value, std::string& extra) const;

  std::ostream& out_;
  uint64_t least_zip64_, at_ = 0;
  std::vector<WrittenMember> entries_;
};

}  // namespace fulmar
