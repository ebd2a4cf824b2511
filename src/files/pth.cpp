#include "files/pth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "base/function_ref.h"
#include "files/pickle.h"
#include "files/zip.h"

namespace fulmar {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMaxRank = 5;
constexpr size_t kMaxRemarks = 32;

Error broken(std::string text) { return {ErrorKind::corrupt, "pth: " + std::move(text)}; }

// What a persistent id says about a storage.
struct StorageRef {
  DType dtype = DType::f32;
  std::string_view key;
  int64_t count = 0;  // elements

  uint64_t bytes() const { return static_cast<uint64_t>(count) * size_of(dtype); }
};

// A tensor as the pickle describes it, before its storage has been found.
struct TensorRef {
  std::string name;
  StorageRef storage;
  int64_t offset = 0;  // elements
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
};

using FindStorage = FunctionRef<Result<const std::byte*>(const StorageRef&)>;

Result<DType> dtype_of_storage(std::string_view global) {
  struct Known {
    std::string_view global;
    DType dtype;
  };
  constexpr std::array<Known, 8> kKnown = {{{"torch\nFloatStorage", DType::f32},
                                            {"torch\nHalfStorage", DType::f16},
                                            {"torch\nBFloat16Storage", DType::bf16},
                                            {"torch\nDoubleStorage", DType::f64},
                                            {"torch\nLongStorage", DType::i64},
                                            {"torch\nIntStorage", DType::i32},
                                            {"torch\nByteStorage", DType::u8},
                                            {"torch\nCharStorage", DType::i8}}};
  for (const Known& known : kKnown) {
    if (known.global == global) return known.dtype;
  }
  return broken(fmt::format("'{}' is not a storage type", printable(global)));
}

// Reads ("storage", type, key, location, numel), and None as a sixth member in the legacy stream.
Result<StorageRef> read_storage(const PickleValue& value) {
  if (!value.is(Kind::storage) || !value.items[0]->is(Kind::tuple)) return broken("a tensor has no storage");
  const auto& id = value.items[0]->items;
  const bool shaped = (id.size() == 5 || (id.size() == 6 && id[5]->is(Kind::none))) &&
                      id[0]->is(Kind::text) && id[0]->text == "storage" && id[1]->is(Kind::global) &&
                      id[2]->is(Kind::text) && id[4]->is(Kind::integer);
  if (!shaped) return broken("a persistent id is not (\"storage\", type, key, location, numel)");
  StorageRef storage;
  FULMAR_ASSIGN(storage.dtype, dtype_of_storage(id[1]->text));
  storage.key = id[2]->text;
  storage.count = id[4]->integer;
  const std::array<int64_t, 2> sizes = {storage.count, static_cast<int64_t>(size_of(storage.dtype))};
  if (!checked_product(sizes)) {
    return broken(fmt::format("storage '{}' has an impossible size of {} elements", printable(storage.key),
                              storage.count));
  }
  return storage;
}

Result<std::vector<int64_t>> read_sizes(const PickleValue& tuple, std::string_view name,
                                        std::string_view what) {
  if (!tuple.is(Kind::tuple)) return broken(fmt::format("{} of '{}' is not a tuple", what, name));
  if (tuple.items.size() > kMaxRank) {
    return broken(
        fmt::format("'{}' has rank {}; at most {} is supported", name, tuple.items.size(), kMaxRank));
  }
  std::vector<int64_t> sizes;
  for (const PickleValue* item : tuple.items) {
    if (!item->is(Kind::integer)) return broken(fmt::format("{} of '{}' holds no integers", what, name));
    if (item->integer < 0)
      return broken(fmt::format("{} of '{}' is negative: {}", what, name, item->integer));
    sizes.push_back(item->integer);
  }
  return sizes;
}

// Checks that every element is in the storage, and that the tensor has no more elements than its storage,
// which bounds the memory of its copies (expanded tensors with stride 0 are refused that way).
Status check_extent(const TensorRef& tensor) {
  const std::optional<int64_t> count = checked_product(tensor.shape);
  const int64_t available = tensor.storage.count;
  const auto outside = [&] {
    return broken(fmt::format(
        "'{}' (shape {}, strides {}, offset {}) lies outside its storage of {} elements", tensor.name,
        shape_text(tensor.shape), shape_text(tensor.strides), tensor.offset, available));
  };
  if (!count || *count > available || tensor.offset < 0 || tensor.offset > available) return outside();
  if (*count == 0) return {};
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.shape.size(); i++) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return outside();
    }
  }
  if (last >= available) return outside();
  return {};
}

// Reads (storage, offset, size, stride, requires_grad, hooks [, metadata]).
Result<TensorRef> read_tensor(std::string_view name, const PickleValue& value) {
  FULMAR_TRY(check_tensor_name(name));
  if (value.items.size() < 4 || !value.items[1]->is(Kind::integer)) {
    return broken(fmt::format("'{}' is not (storage, offset, size, stride, ...)", name));
  }
  TensorRef tensor;
  tensor.name = name;
  FULMAR_ASSIGN(tensor.storage, read_storage(*value.items[0]));
  tensor.offset = value.items[1]->integer;
  FULMAR_ASSIGN(tensor.shape, read_sizes(*value.items[2], name, "shape"));
  FULMAR_ASSIGN(tensor.strides, read_sizes(*value.items[3], name, "stride"));
  if (tensor.shape.size() != tensor.strides.size()) {
    return broken(
        fmt::format("'{}' has {} sizes but {} strides", name, tensor.shape.size(), tensor.strides.size()));
  }
  FULMAR_TRY(check_extent(tensor));
  return tensor;
}

Result<const PickleValue*> find_state_dict(const Pickle& pickle) {
  if (!pickle.root->is(Kind::dict)) return broken("the top object is not a dictionary of tensors");
  for (const std::string_view wrapper : {"state_dict", "model", "module"}) {
    const PickleValue* inner = pickle.root->entry(wrapper);
    if (inner != nullptr && inner->is(Kind::dict)) return inner;
  }
  return pickle.root;
}

// Reads the tensors in dict order; other members become remarks.
Result<std::vector<TensorRef>> read_state_dict(const Pickle& pickle, std::vector<std::string>& remarks) {
  FULMAR_ASSIGN(const PickleValue* const dict, find_state_dict(pickle));
  std::vector<TensorRef> tensors;
  std::unordered_set<std::string_view> names;
  size_t others = 0;
  for (size_t i = 0; i + 1 < dict->items.size(); i += 2) {
    const PickleValue& key = *dict->items[i];
    const PickleValue& value = *dict->items[i + 1];
    if (!key.is(Kind::text) || !value.is(Kind::tensor)) {
      const std::string name = key.is(Kind::text) ? printable(key.text) : "an entry without a name";
      if (others++ < kMaxRemarks) remarks.push_back(fmt::format("'{}' is not a tensor; ignored", name));
      continue;
    }
    if (!names.insert(key.text).second)
      return broken(fmt::format("two tensors are called '{}'", printable(key.text)));
    FULMAR_ASSIGN(TensorRef tensor, read_tensor(key.text, value));
    tensors.push_back(std::move(tensor));
  }
  if (tensors.empty()) return broken("holds no tensors");
  return tensors;
}

Result<std::vector<StoredTensor>> bind_storages(std::vector<TensorRef> refs, FindStorage find_storage) {
  std::vector<StoredTensor> tensors;
  tensors.reserve(refs.size());
  for (TensorRef& ref : refs) {
    FULMAR_ASSIGN(const std::byte* const storage, find_storage(ref.storage));
    const std::byte* data = storage + static_cast<size_t>(ref.offset) * size_of(ref.storage.dtype);
    tensors.push_back(
        {std::move(ref.name), ref.storage.dtype, std::move(ref.shape), std::move(ref.strides), data});
  }
  return tensors;
}

// In larger archives, which are models, only parsed members are checked against their CRC-32: weights are
// mapped, and read only where they are used.
constexpr size_t kMostCheckedBytes = size_t{512} << 20;

// Reads the archive form: <folder>/data.pkl and one member <folder>/data/<key> for each storage.
Result<CheckpointParts> read_archive(ByteSpan file) {
  FULMAR_ASSIGN(const std::vector<ZipMember> members, read_zip_directory(file));
  std::unordered_map<std::string_view, const ZipMember*> by_name;
  std::string_view folder;
  const ZipMember* main = nullptr;
  for (const ZipMember& member : members) {
    by_name.emplace(member.name, &member);
    if (!member.name.ends_with("/data.pkl")) continue;
    if (main != nullptr) return broken("the archive holds two data.pkl");
    main = &member;
    folder = member.name.substr(0, member.name.size() - std::string_view("data.pkl").size());
  }
  if (main == nullptr) return broken("the archive holds no data.pkl");
  for (const ZipMember& member : members) {
    if (file.size() <= kMostCheckedBytes || &member == main) FULMAR_TRY(check_payload(file, member));
  }
  const auto member_called = [&](std::string_view name) {
    const auto found = by_name.find(fmt::format("{}{}", folder, name));
    return found == by_name.end() ? nullptr : found->second;
  };
  if (const ZipMember* order = member_called("byteorder")) {
    const std::string_view text = as_text(file.subspan(order->offset, order->size));
    if (text != "little") return broken(fmt::format("byte order is '{}'; wanted 'little'", printable(text)));
  }

  CheckpointParts parts;
  parts.description = fmt::format("PyTorch zip archive, {}", size_text(file.size()));
  FULMAR_ASSIGN(const Pickle pickle, read_pickle(file.subspan(main->offset, main->size)));
  FULMAR_ASSIGN(std::vector<TensorRef> refs, read_state_dict(pickle, parts.remarks));
  const auto find_storage = [&](const StorageRef& storage) -> Result<const std::byte*> {
    const ZipMember* member = member_called(fmt::format("data/{}", storage.key));
    if (member == nullptr) return broken(fmt::format("storage '{}' is missing", printable(storage.key)));
    if (member->size < storage.bytes()) {
      return broken(fmt::format("storage '{}' has {} bytes; wanted {}", printable(storage.key), member->size,
                                storage.bytes()));
    }
    return file.data() + member->offset;
  };
  FULMAR_ASSIGN(parts.tensors, bind_storages(std::move(refs), find_storage));
  return parts;
}

// The legacy stream starts with this number, 0x1950a86a20f9469cfc6c.
constexpr std::string_view kLegacyMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::string_view kLegacyStart = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
constexpr int64_t kLegacyProtocol = 1001;

// Reads the pickle at the start of `rest` and removes it from there.
Result<Pickle> next_pickle(ByteSpan& rest) {
  FULMAR_ASSIGN(Pickle pickle, read_pickle(rest));
  rest = rest.subspan(pickle.length);
  return pickle;
}

Status check_legacy_head(ByteSpan& rest) {
  FULMAR_ASSIGN(const Pickle magic, next_pickle(rest));
  if (!magic.root->is(Kind::big_integer) || magic.root->text != kLegacyMagic) {
    return broken("the stream does not start with PyTorch's magic number");
  }
  FULMAR_ASSIGN(const Pickle protocol, next_pickle(rest));
  if (!protocol.root->is(Kind::integer) || protocol.root->integer != kLegacyProtocol) {
    return broken(fmt::format("stream protocol is {}; wanted {}", protocol.root->integer, kLegacyProtocol));
  }
  FULMAR_ASSIGN(const Pickle system, next_pickle(rest));
  const PickleValue* little = system.root->entry("little_endian");
  if (little == nullptr || !little->is(Kind::boolean) || little->integer != 1) {
    return broken("the stream was not written on a little-endian machine");
  }
  return {};
}

// Reads what follows the pickles: for each key an int64 count of elements and the elements. The element size
// of a storage is only in its persistent id, so a storage that the object does not mention cannot be skipped.
Result<std::unordered_map<std::string_view, ByteSpan>> read_legacy_storages(ByteSpan rest, const Pickle& keys,
                                                                            const Pickle& object) {
  std::unordered_map<std::string_view, StorageRef> wanted;
  for (const PickleValue& value : object.values) {
    if (!value.is(Kind::storage)) continue;
    FULMAR_ASSIGN(const StorageRef storage, read_storage(value));
    wanted.emplace(storage.key, storage);
  }
  std::unordered_map<std::string_view, ByteSpan> storages;
  if (!keys.root->is(Kind::list)) return broken("the stream lists no storages");
  for (const PickleValue* item : keys.root->items) {
    const auto found = item->is(Kind::text) ? wanted.find(item->text) : wanted.end();
    if (found == wanted.end()) return broken("the stream holds a storage that its object does not mention");
    const StorageRef& storage = found->second;
    const std::string name = fmt::format("storage '{}'", printable(storage.key));
    if (rest.size() < sizeof(int64_t)) return broken(fmt::format("{} is cut short", name));
    const auto count = load_at<int64_t>(rest, 0);
    if (count != storage.count) {
      return broken(fmt::format("{} has {} elements; wanted {}", name, count, storage.count));
    }
    FULMAR_ASSIGN(const ByteSpan payload, part_of(rest, sizeof(int64_t), storage.bytes(), name));
    if (!storages.emplace(storage.key, payload).second) return broken(fmt::format("{} comes twice", name));
    rest = rest.subspan(sizeof(int64_t) + payload.size());
  }
  return storages;
}

Result<CheckpointParts> read_stream(ByteSpan file) {
  ByteSpan rest = file;
  FULMAR_TRY(check_legacy_head(rest));
  FULMAR_ASSIGN(const Pickle object, next_pickle(rest));
  FULMAR_ASSIGN(const Pickle keys, next_pickle(rest));
  CheckpointParts parts;
  parts.description = fmt::format("PyTorch legacy stream, {}", size_text(file.size()));
  FULMAR_ASSIGN(std::vector<TensorRef> refs, read_state_dict(object, parts.remarks));
  FULMAR_ASSIGN(const auto storages, read_legacy_storages(rest, keys, object));
  const auto find_storage = [&](const StorageRef& storage) -> Result<const std::byte*> {
    const auto found = storages.find(storage.key);
    if (found == storages.end() || found->second.size() < storage.bytes()) {
      return broken(fmt::format("storage '{}' is missing or too short", printable(storage.key)));
    }
    return found->second.data();
  };
  FULMAR_ASSIGN(parts.tensors, bind_storages(std::move(refs), find_storage));
  return parts;
}

}  // namespace

bool looks_like_pth(ByteSpan file) {
  return looks_like_zip(file) ||
         as_text(file.first(std::min(file.size(), kLegacyStart.size()))) == kLegacyStart;
}

Result<CheckpointParts> read_pth(ByteSpan file) {
  return looks_like_zip(file) ? read_archive(file) : read_stream(file);
}

}  // namespace fulmar
