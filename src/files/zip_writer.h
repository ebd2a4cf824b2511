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
  // `least_zip64`: sizes, places and numbers of members from there on stand in ZIP64 records; more than the
  // fields of the format hold only in tests.
  explicit ZipWriter(std::ostream& out, uint64_t least_zip64 = UINT32_MAX)
      : out_(out), least_zip64_(least_zip64) {}

  // The payload begins at a multiple of 64 bytes, so that a mapped file can be used in place.
  void add(std::string_view name, ByteSpan content);
  // Writes the directory; the archive is whole behind it.
  void finish();

 private:
  struct WrittenMember {
    std::string name;
    uint32_t crc = 0;
    uint64_t size = 0, local = 0;  // local: where its header begins
  };

  void write(std::string_view bytes);
  std::string directory_entry(const WrittenMember& entry) const;
  // A field of 32 bits, or that the number stands in `extra`.
  std::string number_or_zip64(uint64_t value, std::string& extra) const;

  std::ostream& out_;
  uint64_t least_zip64_, at_ = 0;
  std::vector<WrittenMember> entries_;
};

}  // namespace fulmar
