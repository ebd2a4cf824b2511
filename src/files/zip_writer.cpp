#include "files/zip_writer.h"

#include <ostream>

#include "files/zip.h"

namespace fulmar {
namespace {

constexpr uint64_t kAlignment = 64, kLocalHeaderSize = 30;
constexpr uint16_t kUtf8Names = 0x0800, kPlainVersion = 20, kZip64Version = 45, kFirstDay = 0x21;
constexpr uint16_t kZip64Extra = 0x0001, kPaddingExtra = 0x4246;  // "FB", as PyTorch pads
constexpr size_t kMostMembers16 = UINT16_MAX;

template <class T>
std::string field(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

std::string extra_field(uint16_t id, const std::string& content) {
  return content.empty() ? "" : field(id) + field(static_cast<uint16_t>(content.size())) + content;
}

}  // namespace

void ZipWriter::write(std::string_view bytes) {
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  at_ += bytes.size();
}

std::string ZipWriter::number_or_zip64(uint64_t value, std::string& extra) const {
  if (value < least_zip64_) return field(static_cast<uint32_t>(value));
  extra += field(value);
  return field(UINT32_MAX);
}

void ZipWriter::add(std::string_view name, ByteSpan content) {
  WrittenMember entry{std::string(name), crc32_of(content), content.size(), at_};
  std::string zip64;
  const std::string sizes = number_or_zip64(entry.size, zip64) + number_or_zip64(entry.size, zip64);
  std::string extra = extra_field(kZip64Extra, zip64);
  constexpr size_t kFieldHeader = 4;
  const uint64_t end = at_ + kLocalHeaderSize + name.size() + extra.size() + kFieldHeader;
  const std::string padding((kAlignment - end % kAlignment) % kAlignment, '\0');
  extra += field(kPaddingExtra) + field(static_cast<uint16_t>(padding.size())) + padding;
  write("PK\3\4" + field(zip64.empty() ? kPlainVersion : kZip64Version) + field(kUtf8Names) +
        field(uint16_t{0}) + field(uint16_t{0}) + field(kFirstDay) + field(entry.crc) + sizes +
        field(static_cast<uint16_t>(name.size())) + field(static_cast<uint16_t>(extra.size())) + entry.name +
        extra);
  write(as_text(content));
  entries_.push_back(std::move(entry));
}

std::string ZipWriter::directory_entry(const WrittenMember& entry) const {
  std::string zip64;
  const std::string sizes = number_or_zip64(entry.size, zip64) + number_or_zip64(entry.size, zip64);
  const std::string local = number_or_zip64(entry.local, zip64);
  const std::string extra = extra_field(kZip64Extra, zip64);
  const uint16_t version = zip64.empty() ? kPlainVersion : kZip64Version;
  return "PK\1\2" + field(version) + field(version) + field(kUtf8Names) + field(uint16_t{0}) +
         field(uint16_t{0}) + field(kFirstDay) + field(entry.crc) + sizes +
         field(static_cast<uint16_t>(entry.name.size())) + field(static_cast<uint16_t>(extra.size())) +
         field(uint16_t{0}) + field(uint16_t{0}) + field(uint16_t{0}) + field(uint32_t{0}) + local +
         entry.name + extra;
}

void ZipWriter::finish() {
  const uint64_t directory = at_, count = entries_.size();
  for (const WrittenMember& entry : entries_) write(directory_entry(entry));
  const uint64_t size = at_ - directory, record = at_;
  const bool many = count >= std::min<uint64_t>(kMostMembers16, least_zip64_);
  std::string unused;
  const std::string place = number_or_zip64(size, unused) + number_or_zip64(directory, unused);
  if (many || !unused.empty()) {
    write("PK\6\6" + field(uint64_t{44}) + field(kZip64Version) + field(kZip64Version) + field(uint32_t{0}) +
          field(uint32_t{0}) + field(count) + field(count) + field(size) + field(directory));
    write("PK\6\7" + field(uint32_t{0}) + field(record) + field(uint32_t{1}));
  }
  const auto members = many ? static_cast<uint16_t>(kMostMembers16) : static_cast<uint16_t>(count);
  write("PK\5\6" + field(uint16_t{0}) + field(uint16_t{0}) + field(members) + field(members) + place +
        field(uint16_t{0}));
}

}  // namespace fulmar
