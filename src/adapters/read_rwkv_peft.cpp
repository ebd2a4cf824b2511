// RWKV-PEFT's own files and OpenMOSE's: official names with .lora_A, .lora_B, .lora_M, .disha or .bone behind
// them, and whole tensors beside. Neither alpha nor PiSSA is written there.
#include <fmt/format.h>

#include <map>

#include "adapters/names.h"
#include "adapters/reading.h"

namespace fulmar {
namespace {

using Tensors = std::map<std::string, const StoredTensor*, std::less<>>;

constexpr std::string_view kA = ".lora_A", kB = ".lora_B", kM = ".lora_M", kDisha = ".disha", kBone = ".bone";

// Returns the tensors by name without "model.".
Result<Tensors> by_name(const CheckpointParts& parts) {
  Tensors tensors;
  for (const StoredTensor& tensor : parts.tensors) {
    const std::string name(without_model(tensor.name));
    if (!tensors.emplace(name, &tensor).second) {
      return Error{ErrorKind::corrupt, fmt::format("two tensors are '{}' once 'model.' is taken off", name)};
    }
  }
  return tensors;
}

const StoredTensor* find(const Tensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : found->second;
}

// Returns one tensor [x; y] or [x, y] of two, along the first axis or the last; y times `sign`.
HostTensor joined(const HostTensor& x, const HostTensor& y, bool rows, float sign) {
  const auto cols = static_cast<size_t>(x.shape[1]), more = static_cast<size_t>(y.shape[1]);
  std::vector<float> left = x.floats(), right = y.floats();
  for (float& value : right) value *= sign;
  const DType dtype = x.dtype == y.dtype ? x.dtype : DType::f32;
  if (rows) {
    left.insert(left.end(), right.begin(), right.end());
    return host_tensor(left, {x.shape[0] + y.shape[0], x.shape[1]}, dtype);
  }
  std::vector<float> all;
  for (size_t row = 0; row < static_cast<size_t>(x.shape[0]); row++) {
    all.insert(all.end(), left.begin() + static_cast<int64_t>(row * cols),
               left.begin() + static_cast<int64_t>((row + 1) * cols));
    all.insert(all.end(), right.begin() + static_cast<int64_t>(row * more),
               right.begin() + static_cast<int64_t>((row + 1) * more));
  }
  return host_tensor(all, {x.shape[0], x.shape[1] + y.shape[1]}, dtype);
}

class RwkvPeftReader {
 public:
  RwkvPeftReader(const AdapterSource& source, const AdapterOptions& options)
      : source_(source), options_(options), builder_(source.form, options) {}

  Result<Adapter> run() {
    FULMAR_ASSIGN(tensors_, by_name(source_.parts));
    if (!options_.init.empty()) {
      FULMAR_ASSIGN(init_parts_, tensors_at(options_.init));
      FULMAR_ASSIGN(init_, by_name(init_parts_));
    }
    for (const auto& [name, tensor] : tensors_) FULMAR_TRY(read_one(name, *tensor));
    if (pairs_ == 0) {
      FULMAR_TRY(refuse_scales(options_, "the file holds no low-rank pair"));
      FULMAR_TRY(refuse_init(options_, "the file holds no low-rank pair"));
    }
    for (const std::string& text : source_.parts.remarks) builder_.remark(text);
    return builder_.finish();
  }

 private:
  Status read_one(std::string_view name, const StoredTensor& tensor) {
    const auto stem = [&](std::string_view ending) {
      return std::string(name.substr(0, name.size() - ending.size()));
    };
    if (name.ends_with(kA)) return read_pair(stem(kA), tensor);
    if (name.ends_with(kB)) return wants(stem(kB), kA, name);
    if (name.ends_with(kM)) return wants(stem(kM), kA, name);
    if (name.ends_with(kDisha)) return read_block(stem(kDisha), kDisha, tensor);
    if (name.ends_with(kBone)) return read_block(stem(kBone), kBone, tensor);
    for (const std::string_view part : {"lora", ".bone", ".disha"}) {
      if (name.find(part) != std::string_view::npos) {
        return Error{ErrorKind::unsupported,
                     fmt::format("'{}' is no adapter tensor that is known; wanted .lora_A, .lora_B, .lora_M, "
                                 ".disha or .bone",
                                 name)};
      }
    }
    return builder_.add_whole(std::string(name), tensor, source_.key_major);
  }

  // Checks that a tensor's partner is there; the partner reads both.
  Status wants(const std::string& stem, std::string_view ending, std::string_view name) const {
    if (find(tensors_, fmt::format("{}{}", stem, ending)) != nullptr) return {};
    return Error{ErrorKind::corrupt, fmt::format("'{}' has no partner '{}{}'", name, stem, ending)};
  }

  Status read_pair(const std::string& stem, const StoredTensor& a) {
    FULMAR_TRY(wants(stem, kB, fmt::format("{}{}", stem, kA)));
    pairs_++;
    Delta delta;
    delta.weight = stem + ".weight";
    FULMAR_ASSIGN(delta.a, builder_.read(a));
    FULMAR_ASSIGN(delta.b, builder_.read(*find(tensors_, fmt::format("{}{}", stem, kB))));
    const StoredTensor* const m = find(tensors_, fmt::format("{}{}", stem, kM));
    if (!options_.init.empty()) return read_pissa(stem, std::move(delta), m != nullptr);
    FULMAR_ASSIGN(delta.scale,
                  scale_of_pair(delta.weight, delta.a.shape.empty() ? 0 : delta.a.shape[0], options_));
    builder_.adapter().scale_known = options_.alpha || options_.scale;
    if (m != nullptr) {
      delta.kind = DeltaKind::dora_in;
      FULMAR_ASSIGN(delta.m, builder_.read(*m));
    }
    return builder_.add(std::move(delta));
  }

  // Adds B A - B0 A0 as a pair of twice the rank.
  Status read_pissa(const std::string& stem, Delta delta, bool magnitude) {
    if (magnitude) {
      return Error{ErrorKind::unsupported, fmt::format("'{}' has a magnitude and initial factors", stem)};
    }
    FULMAR_TRY(refuse_scales(options_, "PiSSA's scale is 1"));
    const StoredTensor* const a = find(init_, stem + ".init_lora_A");
    const StoredTensor* const b = find(init_, stem + ".init_lora_B");
    if (a == nullptr || b == nullptr) {
      return Error{ErrorKind::corrupt, fmt::format("'{}' lacks '{}.init_lora_A' or '.init_lora_B'",
                                                   options_.init.string(), stem)};
    }
    FULMAR_ASSIGN(const HostTensor a0, builder_.read(*a));
    FULMAR_ASSIGN(const HostTensor b0, builder_.read(*b));
    const bool matrices = delta.a.shape.size() == 2 && delta.b.shape.size() == 2;
    if (!matrices || a0.shape != delta.a.shape || b0.shape != delta.b.shape) {
      return Error{ErrorKind::corrupt,
                   fmt::format("'{}': initial factors {} and {}; the trained ones are {} and {}", stem,
                               shape_text(a0.shape), shape_text(b0.shape), shape_text(delta.a.shape),
                               shape_text(delta.b.shape))};
    }
    delta.a = joined(delta.a, a0, true, 1);
    delta.b = joined(delta.b, b0, false, -1);
    return builder_.add(std::move(delta));
  }

  Status read_block(const std::string& stem, std::string_view ending, const StoredTensor& tensor) {
    if (find(tensors_, fmt::format("{}{}", stem, kA)) != nullptr) {
      return Error{ErrorKind::corrupt,
                   fmt::format("'{}' has both {} and {}; wanted one kind", stem, kA, ending)};
    }
    Delta delta;
    delta.weight = stem + ".weight";
    FULMAR_ASSIGN(delta.d, builder_.read(tensor));
    delta.kind = delta.d.shape.size() == 3 ? DeltaKind::bat_in : DeltaKind::miss;
    return builder_.add(std::move(delta));
  }

  const AdapterSource& source_;
  const AdapterOptions& options_;
  AdapterBuilder builder_;
  Tensors tensors_, init_;
  CheckpointParts init_parts_;
  size_t pairs_ = 0;
};

}  // namespace

Result<Adapter> read_rwkv_peft(const AdapterSource& source, const AdapterOptions& options) {
  return RwkvPeftReader(source, options).run();
}

}  // namespace fulmar
