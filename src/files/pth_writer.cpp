#include "files/pth_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>

#include "base/write_file.h"
#include "files/zip_writer.h"
#include "tensor/convert.h"

namespace fulmar {
namespace {

constexpr std::string_view kFolder = "archive";  // as torch.save names it

struct StorageType {
  DType dtype;
  std::string_view name;
};
constexpr std::array<StorageType, 8> kStorageTypes = {{{DType::f32, "FloatStorage"},
                                                       {DType::f16, "HalfStorage"},
                                                       {DType::bf16, "BFloat16Storage"},
                                                       {DType::f64, "DoubleStorage"},
                                                       {DType::i64, "LongStorage"},
                                                       {DType::i32, "IntStorage"},
                                                       {DType::u8, "ByteStorage"},
                                                       {DType::i8, "CharStorage"}}};

// Returns the storage's type for a tensor that is stored as it is.
std::optional<StorageType> storage_type(const StoredTensor& tensor) {
  const auto* known = std::find_if(kStorageTypes.begin(), kStorageTypes.end(),
                                   [&](const StorageType& type) { return type.dtype == tensor.dtype; });
  if (known == kStorageTypes.end() || tensor.scales != nullptr) return std::nullopt;
  return *known;
}

// ---- pickle, protocol 2

std::string raw32(uint32_t value) { return {reinterpret_cast<const char*>(&value), sizeof(value)}; }

std::string text(std::string_view value) {
  return "X" + raw32(static_cast<uint32_t>(value.size())) + std::string(value);
}
std::string integer(int64_t value) {
  if (value >= 0 && value <= INT32_MAX) return "J" + raw32(static_cast<uint32_t>(value));
  return "\x8a\x08" + std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}
std::string tuple(std::span<const int64_t> values) {
  std::string out = "(";
  for (const int64_t value : values) out += integer(value);
  return out + "t";
}
std::string global(std::string_view module, std::string_view name) {
  return fmt::format("c{}\n{}\n", module, name);
}
std::string empty_ordered_dict() { return global("collections", "OrderedDict") + ")R"; }

// Writes _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks).
std::string pickled(const StoredTensor& tensor, size_t key) {
  const std::string_view type = storage_type(tensor).value_or(kStorageTypes[1]).name;
  const std::string storage = "(" + text("storage") + global("torch", type) + text(std::to_string(key)) +
                              text("cpu") + integer(tensor.count()) + "tQ";
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + storage + integer(0) + tuple(tensor.shape) +
         tuple(row_major_strides(tensor.shape)) + "\x89" + empty_ordered_dict() + "tR";
}

std::string state_dict(std::span<const StoredTensor> tensors) {
  std::string out = "\x80\x02" + empty_ordered_dict() + "(";
  for (size_t i = 0; i < tensors.size(); i++) out += text(tensors[i].name) + pickled(tensors[i], i);
  return out + "u.";
}

// ---- payloads

void add_storage(ZipWriter& archive, const std::string& name, const StoredTensor& tensor) {
  if (storage_type(tensor) && tensor.contiguous()) return archive.add(name, {tensor.data, tensor.bytes()});
  if (storage_type(tensor)) return archive.add(name, gather_contiguous(tensor));
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  copy_as_f32(tensor, values);
  std::vector<std::byte> halves(values.size() * size_of(DType::f16));
  from_f32(values, DType::f16, halves.data());
  archive.add(name, halves);
}

ByteSpan bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

Status write_pth(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                 const std::function<void(double)>& progress, std::span<const PthMember> members) {
  if (tensors.empty()) {
    return Error{ErrorKind::invalid, fmt::format("{}: no tensors to write", path.string())};
  }
  return write_whole_file(path, [&](std::ostream& file) {
    ZipWriter archive(file);
    archive.add(fmt::format("{}/data.pkl", kFolder), bytes_of(state_dict(tensors)));
    archive.add(fmt::format("{}/byteorder", kFolder), bytes_of("little"));
    for (size_t i = 0; i < tensors.size() && file; i++) {
      add_storage(archive, fmt::format("{}/data/{}", kFolder, i), tensors[i]);
      if (progress) progress(static_cast<double>(i + 1) / static_cast<double>(tensors.size()));
    }
    for (const PthMember& member : members) {
      archive.add(fmt::format("{}/{}", kFolder, member.name), bytes_of(member.content));
    }
    archive.add(fmt::format("{}/version", kFolder), bytes_of("3\n"));
    archive.finish();
  });
}

}  // namespace fulmar
