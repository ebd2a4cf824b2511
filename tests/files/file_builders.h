// Writers of model files for tests: archives, pickles, streams and safetensors, right or deliberately wrong.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "files/bytes.h"
#include "files/checkpoint.h"
#include "files/zip.h"

namespace fulmar::test {

template <class T>
std::string raw(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

inline ByteSpan bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// A file that is removed again.
class TempFile {
 public:
  explicit TempFile(std::string_view content, std::string_view extension = ".bin") {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() / ("fulmar_files_" + std::to_string(::getpid()) + "_" +
                                                      std::to_string(count++) + std::string(extension));
    std::ofstream(path_, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  ~TempFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline StoredTensor tensor_over(std::string name, DType dtype, std::vector<int64_t> shape, const void* data) {
  std::vector<int64_t> strides = row_major_strides(shape);
  return {std::move(name), dtype, std::move(shape), std::move(strides), static_cast<const std::byte*>(data)};
}

// --- zip ---------------------------------------------------------------------------------------------------

struct Member {
  std::string name;
  std::string content;
  uint16_t method = 0;
  uint16_t flags = 0x0808;
  // Distance of the entry's local header from the true one, for overlapping and stray members.
  int64_t shift = 0;
};

struct ZipOptions {
  bool zip64 = false;   // every size and offset through the zip64 records
  std::string comment;  // behind the end record
  bool crc = false;     // else 0, as of a writer that computes none
};

// Like torch.save: sizes only in the directory, payloads padded to 64 bytes by the local extra field.
inline std::string zip_of(const std::vector<Member>& members, const ZipOptions& options = {}) {
  const std::string full(4, '\xff');
  std::string out, directory;
  for (const Member& member : members) {
    const uint64_t local = out.size();
    const size_t head = out.size() + 30 + member.name.size() + 4;
    const std::string padding((64 - head % 64) % 64, 'Z');
    out += "PK\3\4" + raw<uint16_t>(0) + raw<uint16_t>(member.flags) + raw<uint16_t>(member.method) +
           std::string(16, '\0') + raw<uint16_t>(static_cast<uint16_t>(member.name.size())) +
           raw<uint16_t>(static_cast<uint16_t>(padding.size() + 4)) + member.name + "FB" +
           raw<uint16_t>(static_cast<uint16_t>(padding.size())) + padding + member.content;
    out += "PK\7\10" + raw<uint32_t>(0) + raw<uint32_t>(static_cast<uint32_t>(member.content.size())) +
           raw<uint32_t>(static_cast<uint32_t>(member.content.size()));
    const uint64_t claimed = local + static_cast<uint64_t>(member.shift);
    const std::string size = raw<uint32_t>(static_cast<uint32_t>(member.content.size()));
    std::string extra;
    if (options.zip64) {
      extra = raw<uint16_t>(1) + raw<uint16_t>(24) + raw<uint64_t>(member.content.size()) +
              raw<uint64_t>(member.content.size()) + raw<uint64_t>(claimed);
    }
    directory += "PK\1\2" + raw<uint32_t>(0) + raw<uint16_t>(member.flags) + raw<uint16_t>(member.method) +
                 std::string(4, '\0') + raw<uint32_t>(options.crc ? crc32_of(bytes_of(member.content)) : 0) +
                 (options.zip64 ? full + full : size + size) +
                 raw<uint16_t>(static_cast<uint16_t>(member.name.size())) +
                 raw<uint16_t>(static_cast<uint16_t>(extra.size())) + std::string(10, '\0') +
                 (options.zip64 ? full : raw<uint32_t>(static_cast<uint32_t>(claimed))) + member.name + extra;
  }
  const uint64_t at = out.size();
  out += directory;
  if (options.zip64) {
    const uint64_t record = out.size();
    out += "PK\6\6" + raw<uint64_t>(44) + raw<uint32_t>(0) + raw<uint64_t>(0) +
           raw<uint64_t>(members.size()) + raw<uint64_t>(members.size()) + raw<uint64_t>(directory.size()) +
           raw<uint64_t>(at);
    out += "PK\6\7" + raw<uint32_t>(0) + raw<uint64_t>(record) + raw<uint32_t>(1);
    out += "PK\5\6" + raw<uint32_t>(0) + std::string(4, '\xff') + full + full;
  } else {
    const auto count = raw<uint16_t>(static_cast<uint16_t>(members.size()));
    out += "PK\5\6" + raw<uint32_t>(0) + count + count +
           raw<uint32_t>(static_cast<uint32_t>(directory.size())) + raw<uint32_t>(static_cast<uint32_t>(at));
  }
  return out + raw<uint16_t>(static_cast<uint16_t>(options.comment.size())) + options.comment;
}

// --- pickle ------------------------------------------------------------------------------------------------

namespace pickle {

inline std::string text(std::string_view value) {
  return std::string("X") + raw<uint32_t>(static_cast<uint32_t>(value.size())) + std::string(value);
}
inline std::string integer(int64_t value) {
  if (value >= 0 && value < 256) return std::string("K") + raw<uint8_t>(static_cast<uint8_t>(value));
  if (value >= INT32_MIN && value <= INT32_MAX)
    return std::string("J") + raw<int32_t>(static_cast<int32_t>(value));
  return std::string("\x8a") + raw<uint8_t>(8) + raw<int64_t>(value);
}
inline std::string tuple(const std::vector<int64_t>& values) {
  std::string out = "(";
  for (const int64_t value : values) out += integer(value);
  return out + "t";
}
inline std::string global(std::string_view module, std::string_view name) {
  return std::string("c").append(module) + "\n" + std::string(name) + "\n";
}
inline std::string whole(const std::string& body) { return std::string("\x80\x02") + body + "."; }

inline std::string_view storage_type(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return "HalfStorage";
    case DType::bf16:
      return "BFloat16Storage";
    case DType::f64:
      return "DoubleStorage";
    case DType::i64:
      return "LongStorage";
    case DType::i32:
      return "IntStorage";
    case DType::u8:
      return "ByteStorage";
    default:
      return "FloatStorage";
  }
}

}  // namespace pickle

// What a state dict says about one tensor; every field may lie.
struct PickledTensor {
  std::string name;
  DType dtype = DType::f32;
  std::string key;  // of the storage
  int64_t numel = 0;
  int64_t offset = 0;
  std::vector<int64_t> shape, strides;
};

inline std::string pickled(const PickledTensor& tensor, bool legacy) {
  using namespace pickle;
  return global("torch._utils", "_rebuild_tensor_v2") + "((" + text("storage") +
         global("torch", storage_type(tensor.dtype)) + text(tensor.key) + text("cpu") +
         integer(tensor.numel) + (legacy ? "N" : "") + "tQ" + integer(tensor.offset) + tuple(tensor.shape) +
         tuple(tensor.strides) + "\x89" + global("collections", "OrderedDict") + ")Rt" + "R";
}

// An OrderedDict with attributes, as Module.state_dict() leaves it.
inline std::string state_dict(const std::vector<PickledTensor>& tensors, bool legacy = false) {
  using namespace pickle;
  std::string body = global("collections", "OrderedDict") + ")R(";
  for (const PickledTensor& tensor : tensors) body += text(tensor.name) + pickled(tensor, legacy);
  return whole(body + "u}" + text("_metadata") + global("collections", "OrderedDict") + ")Rsb");
}

// One storage for each tensor, in the zip form.
inline std::vector<Member> pth_members(const std::vector<StoredTensor>& tensors) {
  std::vector<PickledTensor> refs;
  std::vector<Member> members = {
      {"model/data.pkl", ""}, {"model/byteorder", "little"}, {"model/version", "3\n"}};
  for (const StoredTensor& tensor : tensors) {
    const std::string key = std::to_string(refs.size());
    const std::vector<std::byte> data = gather_contiguous(tensor);
    refs.push_back(
        {tensor.name, tensor.dtype, key, tensor.count(), 0, tensor.shape, row_major_strides(tensor.shape)});
    members.push_back({"model/data/" + key, {reinterpret_cast<const char*>(data.data()), data.size()}});
  }
  members[0].content = state_dict(refs);
  return members;
}

// The stream form, one storage for each tensor.
inline std::string legacy_stream(const std::vector<StoredTensor>& tensors) {
  using namespace pickle;
  std::vector<PickledTensor> refs;
  std::string keys, payload;
  for (const StoredTensor& tensor : tensors) {
    const std::string key = std::to_string(94000 + refs.size());
    const std::vector<std::byte> data = gather_contiguous(tensor);
    refs.push_back(
        {tensor.name, tensor.dtype, key, tensor.count(), 0, tensor.shape, row_major_strides(tensor.shape)});
    keys += text(key);
    payload +=
        raw<int64_t>(tensor.count()) + std::string(reinterpret_cast<const char*>(data.data()), data.size());
  }
  const std::string magic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  const std::string system = whole("}(" + text("protocol_version") + integer(1001) + text("little_endian") +
                                   "\x88" + text("type_sizes") + "}(" + text("short") + integer(2) + "uu");
  return magic + whole(integer(1001)) + system + state_dict(refs, true) + whole("](" + keys + "e") + payload;
}

// --- safetensors -------------------------------------------------------------------------------------------

inline std::string safetensors_of(std::string_view header, std::string_view data) {
  return raw<uint64_t>(header.size()) + std::string(header) + std::string(data);
}

}  // namespace fulmar::test
