#include "files/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_set>

namespace fulmar {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEndRecord = 0x06054b50;
constexpr uint32_t kEndRecord64 = 0x06064b50;
constexpr uint32_t kLocator64 = 0x07064b50;
constexpr uint64_t kEndRecordSize = 22, kLocator64Size = 20, kEndRecord64Size = 56;
constexpr uint64_t kEntrySize = 46, kLocalHeaderSize = 30;
constexpr uint16_t kZip64Extra = 0x0001;
constexpr uint32_t kFull32 = 0xffffffff;  // "the real number stands in the zip64 record"
constexpr uint16_t kFull16 = 0xffff;

Error broken(std::string text) { return {ErrorKind::corrupt, "zip: " + std::move(text)}; }

struct Directory {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t entries = 0;
};

struct DirectoryEntry {
  std::string_view name;
  uint64_t compressed = 0;
  uint64_t size = 0;
  uint64_t local = 0;  // offset of the local header
  uint32_t crc = 0;
};

// Finds the record at the very end: its comment must reach exactly to the end of the file.
std::optional<uint64_t> find_end_record(ByteSpan file) {
  if (file.size() < kEndRecordSize) return std::nullopt;
  const uint64_t last = file.size() - kEndRecordSize;
  const uint64_t first = last > kFull16 ? last - kFull16 : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    if (load_at<uint32_t>(file, at) == kEndRecord && load_at<uint16_t>(file, at + 20) == last - at) return at;
  }
  return std::nullopt;
}

Result<Directory> locate_directory(ByteSpan file) {
  const std::optional<uint64_t> end = find_end_record(file);
  if (!end) return broken(fmt::format("no end record in {} bytes (truncated?)", file.size()));
  const auto entries = load_at<uint16_t>(file, *end + 10);
  const auto size = load_at<uint32_t>(file, *end + 12);
  const auto offset = load_at<uint32_t>(file, *end + 16);
  Directory directory{offset, size, entries};
  if (entries == kFull16 || size == kFull32 || offset == kFull32) {
    if (*end < kLocator64Size || load_at<uint32_t>(file, *end - kLocator64Size) != kLocator64) {
      return broken("the zip64 locator is missing");
    }
    const auto record = load_at<uint64_t>(file, *end - kLocator64Size + 8);
    if (!lies_inside(file, record, kEndRecord64Size) || load_at<uint32_t>(file, record) != kEndRecord64) {
      return broken(fmt::format("no zip64 end record at {}", record));
    }
    if (entries == kFull16) directory.entries = load_at<uint64_t>(file, record + 32);
    if (size == kFull32) directory.size = load_at<uint64_t>(file, record + 40);
    if (offset == kFull32) directory.offset = load_at<uint64_t>(file, record + 48);
  }
  if (!lies_inside(file.first(*end), directory.offset, directory.size)) {
    return broken(fmt::format("directory of {} bytes at {} does not end before the end record at {}",
                              directory.size, directory.offset, *end));
  }
  if (directory.entries > directory.size / kEntrySize) {
    return broken(
        fmt::format("{} entries do not fit a directory of {} bytes", directory.entries, directory.size));
  }
  return directory;
}

// Fills the fields of `entry` that the 32-bit header could not hold.
Status read_zip64_extra(ByteSpan extra, DirectoryEntry& entry) {
  const bool wanted = entry.size == kFull32 || entry.compressed == kFull32 || entry.local == kFull32;
  while (wanted && extra.size() >= 4) {
    const auto id = load_at<uint16_t>(extra, 0);
    const auto length = load_at<uint16_t>(extra, 2);
    if (length > extra.size() - 4u) break;
    ByteSpan content = extra.subspan(4, length);
    extra = extra.subspan(4u + length);
    if (id != kZip64Extra) continue;
    for (uint64_t* field : {&entry.size, &entry.compressed, &entry.local}) {
      if (*field != kFull32) continue;
      if (content.size() < 8)
        return broken(fmt::format("zip64 field of '{}' is cut short", printable(entry.name)));
      *field = load_at<uint64_t>(content, 0);
      content = content.subspan(8);
    }
    return {};
  }
  if (wanted) return broken(fmt::format("zip64 field of '{}' is missing", printable(entry.name)));
  return {};
}

// Reads the entry at `at` of the directory's bytes and moves `at` past it.
Result<DirectoryEntry> read_entry(ByteSpan directory, uint64_t& at) {
  if (!lies_inside(directory, at, kEntrySize) || load_at<uint32_t>(directory, at) != kDirectoryEntry) {
    return broken(fmt::format("no directory entry at byte {} of the directory", at));
  }
  const auto flags = load_at<uint16_t>(directory, at + 8);
  const auto method = load_at<uint16_t>(directory, at + 10);
  const uint64_t name_length = load_at<uint16_t>(directory, at + 28);
  const uint64_t extra_length = load_at<uint16_t>(directory, at + 30);
  const uint64_t comment_length = load_at<uint16_t>(directory, at + 32);
  if (!lies_inside(directory, at + kEntrySize, name_length + extra_length + comment_length)) {
    return broken(fmt::format("entry at byte {} of the directory is cut short", at));
  }
  DirectoryEntry entry{as_text(directory.subspan(at + kEntrySize, name_length)),
                       load_at<uint32_t>(directory, at + 20), load_at<uint32_t>(directory, at + 24),
                       load_at<uint32_t>(directory, at + 42), load_at<uint32_t>(directory, at + 16)};
  if (method != 0 || (flags & 1) != 0) {
    return broken(fmt::format("member '{}' is {} (method {}); wanted stored", printable(entry.name),
                              (flags & 1) != 0 ? "encrypted" : "compressed", method));
  }
  FULMAR_TRY(read_zip64_extra(directory.subspan(at + kEntrySize + name_length, extra_length), entry));
  if (entry.compressed != entry.size) {
    return broken(fmt::format("stored member '{}' has two sizes, {} and {}", printable(entry.name),
                              entry.compressed, entry.size));
  }
  at += kEntrySize + name_length + extra_length + comment_length;
  return entry;
}

// Tells whether the local header says of the payload what the directory does. Of sizes and checksum a writer
// that did not know them yet has left 0 there, and of sizes that lie in a zip64 field all bits.
bool agrees(ByteSpan archive, const DirectoryEntry& entry) {
  const auto says = [&](uint64_t at) { return load_at<uint32_t>(archive, entry.local + at); };
  const auto is_size = [&](uint32_t size, uint64_t wanted) {
    return size == 0 || size == kFull32 || size == wanted;
  };
  const auto method = load_at<uint16_t>(archive, entry.local + 8);
  const uint32_t crc = says(14);
  return method == 0 && (crc == 0 || crc == entry.crc) && is_size(says(18), entry.compressed) &&
         is_size(says(22), entry.size);
}

// Finds the payload after the local header, whose extra field differs from that of the directory.
Result<ZipMember> locate_payload(ByteSpan before_directory, const DirectoryEntry& entry) {
  const std::string name = printable(entry.name);
  if (!lies_inside(before_directory, entry.local, kLocalHeaderSize) ||
      load_at<uint32_t>(before_directory, entry.local) != kLocalHeader) {
    return broken(fmt::format("no local header of '{}' at {}", name, entry.local));
  }
  const uint64_t name_length = load_at<uint16_t>(before_directory, entry.local + 26);
  const uint64_t extra_length = load_at<uint16_t>(before_directory, entry.local + 28);
  const uint64_t payload = entry.local + kLocalHeaderSize + name_length + extra_length;
  if (!lies_inside(before_directory, payload, entry.size)) {
    return broken(fmt::format("payload of '{}' ({} bytes at {}) reaches into the directory at {}", name,
                              entry.size, payload, before_directory.size()));
  }
  if (as_text(before_directory.subspan(entry.local + kLocalHeaderSize, name_length)) != entry.name) {
    return broken(fmt::format("local header at {} does not name '{}'", entry.local, name));
  }
  if (!agrees(before_directory, entry)) {
    return broken(fmt::format("local header of '{}' at {} disagrees with the directory", name, entry.local));
  }
  return ZipMember{entry.name, payload, entry.size, entry.crc};
}

struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string_view name;
};

Status check_disjoint(std::vector<Extent> extents) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); i++) {
    if (extents[i].begin < extents[i - 1].end) {
      return broken(fmt::format("members '{}' and '{}' overlap", printable(extents[i - 1].name),
                                printable(extents[i].name)));
    }
  }
  return {};
}

}  // namespace

bool looks_like_zip(ByteSpan file) { return file.size() >= 4 && load_at<uint32_t>(file, 0) == kLocalHeader; }

Result<std::vector<ZipMember>> read_zip_directory(ByteSpan archive) {
  FULMAR_ASSIGN(const Directory where, locate_directory(archive));
  const ByteSpan directory = archive.subspan(where.offset, where.size);
  const ByteSpan before_directory = archive.first(where.offset);
  std::vector<ZipMember> members;
  std::vector<Extent> extents;
  std::unordered_set<std::string_view> names;
  uint64_t at = 0;
  for (uint64_t i = 0; i < where.entries; i++) {
    FULMAR_ASSIGN(const DirectoryEntry entry, read_entry(directory, at));
    FULMAR_ASSIGN(const ZipMember member, locate_payload(before_directory, entry));
    if (!names.insert(member.name).second) {
      return broken(fmt::format("two members are called '{}'", printable(member.name)));
    }
    members.push_back(member);
    extents.push_back({entry.local, member.offset + member.size, member.name});
  }
  FULMAR_TRY(check_disjoint(std::move(extents)));
  return members;
}

// Computes in chunks, since zlib counts in 32 bits.
uint32_t crc32_of(ByteSpan content) {
  uLong crc = crc32(0, nullptr, 0);
  constexpr size_t kAtOnce = size_t{1} << 30;
  for (size_t first = 0; first < content.size(); first += kAtOnce) {
    const ByteSpan part = content.subspan(first, std::min(kAtOnce, content.size() - first));
    crc = crc32(crc, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
  }
  return static_cast<uint32_t>(crc);
}

Status check_payload(ByteSpan archive, const ZipMember& member) {
  if (member.crc == 0) return {};
  const uint32_t found = crc32_of(archive.subspan(member.offset, member.size));
  if (found == member.crc) return {};
  return broken(fmt::format("member '{}' is damaged: its CRC-32 is {:08x}; wanted {:08x}",
                            printable(member.name), found, member.crc));
}

}  // namespace fulmar
