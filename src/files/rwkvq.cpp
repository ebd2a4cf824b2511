#include "files/rwkvq.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "tensor/convert.h"
#include "tensor/scaled_codes.h"

namespace fulmar {
namespace {

constexpr std::string_view kMagic("RWKVQ\0\1\0", 8);
constexpr uint32_t kVersion = 1;
constexpr uint64_t kHeadBytes = 16, kEntryBytes = 16;  // of the file; of a tensor before its name
constexpr size_t kMostRank = 5;

enum RwkvqType : uint8_t { kBf16 = 0, kF16 = 1, kInt8 = 2, kInt4 = 3 };

Error broken(std::string text) { return {ErrorKind::corrupt, "rwkvq: " + std::move(text)}; }

class Reader {
 public:
  explicit Reader(ByteSpan file) : file_(file) {}

  Result<CheckpointParts> run() {
    if (file_.size() < kHeadBytes) return broken(fmt::format("{} bytes are too few", file_.size()));
    const auto version = load_at<uint32_t>(file_, kMagic.size()), count = load_at<uint32_t>(file_, 12);
    if (version != kVersion) {
      return Error{ErrorKind::unsupported, fmt::format("rwkvq: version {}; wanted {}", version, kVersion)};
    }
    at_ = kHeadBytes;
    if (count == 0 || count > (file_.size() - at_) / (kEntryBytes + 1)) {
      return broken(fmt::format("{} tensors in {} bytes", count, file_.size()));
    }
    std::unordered_set<std::string> names;
    for (uint32_t i = 0; i < count; i++) {
      FULMAR_ASSIGN(StoredTensor tensor, read_tensor());
      if (!names.insert(tensor.name).second) return broken(fmt::format("'{}' comes twice", tensor.name));
      parts_.tensors.push_back(std::move(tensor));
    }
    if (at_ != file_.size()) {
      return broken(fmt::format("{} bytes behind the last of {} tensors", file_.size() - at_, count));
    }
    parts_.description = fmt::format("rwkvq, {}", size_text(file_.size()));
    return std::move(parts_);
  }

 private:
  Result<ByteSpan> take(uint64_t bytes, std::string_view what) {
    FULMAR_ASSIGN(const ByteSpan part, part_of(file_, at_, bytes, what));
    at_ += bytes;
    return part;
  }

  Result<StoredTensor> read_tensor() {
    FULMAR_ASSIGN(const ByteSpan head, take(kEntryBytes, "rwkvq: tensor"));
    const auto name_bytes = load_at<uint32_t>(head, 0);
    const auto kind = load_at<uint8_t>(head, 4), rank = load_at<uint8_t>(head, 5);
    const auto group = load_at<uint16_t>(head, 6);
    const auto numbers = load_at<uint64_t>(head, 8);
    FULMAR_ASSIGN(const ByteSpan name, take(name_bytes, "rwkvq: name of a tensor"));
    FULMAR_TRY(check_tensor_name(as_text(name)));
    StoredTensor tensor;
    tensor.name = as_text(name);
    if (rank > kMostRank) {
      return broken(fmt::format("'{}' has rank {}; wanted at most {}", tensor.name, rank, kMostRank));
    }
    FULMAR_ASSIGN(const ByteSpan sides, take(rank * sizeof(int64_t), "rwkvq: shape of " + tensor.name));
    for (uint8_t i = 0; i < rank; i++) tensor.shape.push_back(load_at<int64_t>(sides, i * sizeof(int64_t)));
    const std::optional<int64_t> count = checked_product(tensor.shape);
    if (!count || static_cast<uint64_t>(*count) != numbers) {
      return broken(
          fmt::format("'{}' has shape {} and {} numbers", tensor.name, shape_text(tensor.shape), numbers));
    }
    tensor.strides = row_major_strides(tensor.shape);
    if (kind == kBf16 || kind == kF16) return read_plain(std::move(tensor), kind);
    if (kind == kInt8 || kind == kInt4) return read_coded(std::move(tensor), kind, group);
    return Error{ErrorKind::unsupported,
                 fmt::format("rwkvq: '{}' has type {}; wanted 0 to 3", tensor.name, kind)};
  }

  Result<StoredTensor> read_plain(StoredTensor tensor, uint8_t kind) {
    tensor.dtype = kind == kBf16 ? DType::bf16 : DType::f16;
    const auto count = static_cast<uint64_t>(tensor.count());  // below 2^63
    FULMAR_ASSIGN(const ByteSpan data, take(count * 2, "rwkvq: data of " + tensor.name));
    tensor.data = data.data();
    return tensor;
  }

  Result<StoredTensor> read_coded(StoredTensor tensor, uint8_t kind, uint16_t stored_group) {
    if (tensor.shape.size() != 2 || tensor.count() == 0) {
      return broken(fmt::format("'{}' has shape {}; wanted a matrix", tensor.name, shape_text(tensor.shape)));
    }
    const int64_t rows = tensor.shape[0], cols = tensor.shape[1];
    if (kind == kInt4 && stored_group != 32 && stored_group != 128) {
      return broken(fmt::format("'{}' has groups of {}; wanted 32 or 128", tensor.name, stored_group));
    }
    const int64_t group = kind == kInt8 ? cols : std::min<int64_t>(stored_group, cols);
    const int64_t row_bytes = kind == kInt8 ? cols : cols / 2 + cols % 2;
    FULMAR_ASSIGN(const ByteSpan codes, take(static_cast<uint64_t>(rows) * static_cast<uint64_t>(row_bytes),
                                             "rwkvq: data of " + tensor.name));
    FULMAR_ASSIGN(const ByteSpan count, take(sizeof(uint64_t), "rwkvq: scales of " + tensor.name));
    const int64_t per_row = cols / group + (cols % group != 0 ? 1 : 0);
    const auto found = load_at<uint64_t>(count, 0), wanted = static_cast<uint64_t>(rows * per_row);
    if (found != wanted) {
      return broken(fmt::format("'{}' has {} scales; wanted {}", tensor.name, found, wanted));
    }
    FULMAR_ASSIGN(const ByteSpan halves, take(wanted * 2, "rwkvq: scales of " + tensor.name));
    auto scales = std::make_shared<std::vector<float>>(wanted);
    to_f32(DType::f16, halves.data(), *scales);
    if (!std::all_of(scales->begin(), scales->end(), [](float x) { return std::isfinite(x); })) {
      return broken(fmt::format("'{}' has a scale that is NaN or infinite", tensor.name));
    }
    tensor.dtype = kind == kInt8 ? DType::i8 : DType::i4;
    if (kind == kInt4 && (cols % group != 0 || group % 2 != 0)) {
      decode(tensor, codes, *scales, group, row_bytes);
      return tensor;
    }
    tensor.data = codes.data();
    tensor.scales = scales->data();
    tensor.group = group;
    parts_.owners.push_back(std::move(scales));
    return tensor;
  }

  // Decodes rows of int4 that end within a group or a byte.
  void decode(StoredTensor& tensor, ByteSpan codes, const std::vector<float>& scales, int64_t group,
              int64_t row_bytes) {
    const int64_t rows = tensor.shape[0], cols = tensor.shape[1], per_row = (cols + group - 1) / group;
    auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(rows * cols));
    for (int64_t row = 0; row < rows; row++) {
      for (int64_t col = 0; col < cols; col++) {
        const auto both = static_cast<uint8_t>(codes[static_cast<size_t>(row * row_bytes + col / 2)]);
        const int code = static_cast<int8_t>(col % 2 == 0 ? both << 4 : both & 0xf0) >> 4;
        (*values)[static_cast<size_t>(row * cols + col)] =
            static_cast<float>(code) * scales[static_cast<size_t>(row * per_row + col / group)];
      }
    }
    tensor.dtype = DType::f32;
    tensor.data = reinterpret_cast<const std::byte*>(values->data());
    parts_.owners.push_back(std::move(values));
  }

  const ByteSpan file_;
  uint64_t at_ = 0;
  CheckpointParts parts_;
};

}  // namespace

bool looks_like_rwkvq(ByteSpan file) {
  return file.size() >= kMagic.size() && as_text(file.first(kMagic.size())) == kMagic;
}

Result<CheckpointParts> read_rwkvq(ByteSpan file) { return Reader(file).run(); }

}  // namespace fulmar
