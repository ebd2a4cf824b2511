#include "files/quantised.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/check.h"
#include "base/thread.h"
#include "tensor/importance.h"

namespace fulmar {
namespace {

// Returns the part of a name that says what a matrix is: "att.key.weight" of "blocks.3.att.key.weight".
std::string kind_of_name(std::string_view name) {
  if (!name.starts_with("blocks.")) return std::string(name);
  const size_t dot = name.find('.', 7);
  return std::string(name.substr(dot == std::string_view::npos ? 0 : dot + 1));
}

// Codes and scales of one matrix.
struct Packed {
  std::vector<std::byte> codes;
  std::vector<float> scales;
};

// Sums of squares of errors and of weights, as columns count.
struct Energy {
  double error = 0, weight = 0;
};

struct RowRange {
  int64_t first = 0, last = 0;  // [first, last)
};

// Encodes the rows and measures the error; returns false where a number is not finite. `importance`
// is empty where all columns count equally.
bool pack_rows(const HostMatrix& matrix, const Quantisation& quantisation, std::span<const float> importance,
               RowRange rows, Packed& packed, Energy& energy) {
  const auto cols = static_cast<size_t>(matrix.cols);
  const size_t row_bytes = bytes_for(quantisation.dtype, matrix.cols);
  const auto row_scales = static_cast<size_t>(scales_per_row(quantisation, matrix.cols));
  std::vector<float> values(cols), decoded(cols);
  for (int64_t row = rows.first; row < rows.last; row++) {
    rows_as_f32(matrix, row, values);
    if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) return false;
    std::byte* const codes = packed.codes.data() + static_cast<size_t>(row) * row_bytes;
    float* const scales =
        row_scales == 0 ? nullptr : packed.scales.data() + static_cast<size_t>(row) * row_scales;
    if (importance.empty()) {
      encode_rows(quantisation, values, matrix.cols, codes, scales);
    } else {
      encode_rows(quantisation, values, importance, codes, scales);
    }
    decode_row(quantisation.dtype, codes, scales, group_of(quantisation, matrix.cols), decoded);
    for (size_t i = 0; i < cols; i++) {
      const double off = static_cast<double>(decoded[i]) - static_cast<double>(values[i]);
      const double counts = importance.empty() ? 1 : static_cast<double>(importance[i]);
      energy.error += counts * off * off;
      energy.weight += counts * static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
  }
  return true;
}

Result<Energy> pack(const StoredTensor& tensor, const Quantisation& quantisation,
                    std::span<const float> importance, Packed& packed) {
  constexpr int64_t kRowsAtOnce = 16;
  const int64_t rows = tensor.shape[0], cols = tensor.shape[1];
  const HostMatrix matrix{tensor.data, tensor.dtype, rows, cols, tensor.strides[0], tensor.strides[1]};
  packed.codes.resize(bytes_for(quantisation.dtype, rows * cols));
  packed.scales.resize(static_cast<size_t>(rows * scales_per_row(quantisation, cols)));
  const unsigned threads = processor_threads();
  std::vector<Energy> energies(threads);
  std::atomic<int64_t> next = 0;
  std::atomic<bool> finite = true;
  run_on_threads(threads, [&](unsigned index) {
    for (int64_t first = next.fetch_add(kRowsAtOnce); first < rows && finite;
         first = next.fetch_add(kRowsAtOnce)) {
      const RowRange some{first, std::min(rows, first + kRowsAtOnce)};
      if (!pack_rows(matrix, quantisation, importance, some, packed, energies[index])) {
        finite = false;
      }
    }
  });
  if (!finite) {
    return Error{ErrorKind::corrupt,
                 fmt::format("tensor '{}' holds NaN or infinity and cannot be quantised", tensor.name)};
  }
  Energy sum;
  for (const Energy& one : energies) {
    sum.error += one.error;
    sum.weight += one.weight;
  }
  return sum;
}

std::span<const float> importance_of(const StoredTensor& tensor, const QuantiseOptions& options) {
  const auto found = options.importance.find(tensor.name);
  if (found == options.importance.end()) return {};
  FULMAR_CHECK(static_cast<int64_t>(found->second.size()) == tensor.shape[1]);
  return found->second;
}

// What has been measured of one kind so far.
struct KindTally {
  QuantisedKind kind;
  Energy energy;
  double bytes = 0, weights = 0;
};

void add_to_tally(std::vector<KindTally>& tallies, const StoredTensor& tensor, const Quantisation& by,
                  const Packed& packed, const Energy& energy) {
  const std::string name = kind_of_name(tensor.name);
  auto found = std::find_if(tallies.begin(), tallies.end(), [&](const KindTally& t) {
    return t.kind.kind == name && t.kind.type == by.name;
  });
  if (found == tallies.end()) {
    tallies.push_back({{name, by.name, by.dtype}, {}, 0, 0});
    found = tallies.end() - 1;
  }
  found->kind.matrices++;
  found->energy.error += energy.error;
  found->energy.weight += energy.weight;
  found->bytes += static_cast<double>(packed.codes.size() + packed.scales.size() * sizeof(float));
  found->weights += static_cast<double>(tensor.count());
}

// Returns "q4_k", or "int8 and int4" where the mixes differ.
std::string names_of(const QuantiseOptions& options) {
  const auto name = [](const std::optional<Quantisation>& q) { return q ? q->name : "stored types"; };
  const std::string_view time = name(options.time_mix), channel = name(options.channel_mix);
  return time == channel ? std::string(time) : fmt::format("{} and {}", time, channel);
}

}  // namespace

std::optional<Quantisation> quantisation_of(std::string_view name, std::span<const int64_t> shape,
                                            const QuantiseOptions& options) {
  if (shape.size() != 2 || !is_large_matrix(name)) return std::nullopt;
  const std::string kind = kind_of_name(name);
  const auto& wanted = name == "head.weight"      ? options.head
                       : kind.starts_with("att.") ? options.time_mix
                                                  : options.channel_mix;
  return wanted ? fitting(*wanted, shape[1]) : std::nullopt;
}

bool is_large_matrix(std::string_view name) {
  constexpr std::string_view kBlocks[] = {"att.receptance.weight", "att.key.weight",       "att.value.weight",
                                          "att.output.weight",     "att.gate.weight",      "ffn.key.weight",
                                          "ffn.value.weight",      "ffn.receptance.weight"};
  if (name == "head.weight") return true;
  const std::string kind = kind_of_name(name);
  return name.starts_with("blocks.") &&
         std::find(std::begin(kBlocks), std::end(kBlocks), kind) != std::end(kBlocks);
}

std::string kinds_in_blocks(std::span<const QuantisedKind> kinds) {
  std::vector<std::string_view> names;
  for (const QuantisedKind& kind : kinds) {
    const bool again = std::find(names.begin(), names.end(), kind.type) != names.end();
    if (kind.kind != "head.weight" && !again) names.push_back(kind.type);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

QuantiseOptions quantise_all(const Quantisation& quantisation, std::optional<Quantisation> head) {
  return {.time_mix = quantisation, .channel_mix = quantisation, .head = head, .progress = {}};
}

Quantisation head_quantisation() { return *quantisation_named("q8_0"); }

Result<std::unique_ptr<Checkpoint>> quantise_checkpoint(std::unique_ptr<Checkpoint> source,
                                                        const QuantiseOptions& options,
                                                        std::vector<QuantisedKind>* kinds) {
  std::shared_ptr<Checkpoint> whole = std::move(source);
  CheckpointParts parts;
  parts.description = fmt::format("{}, quantised to {}", whole->describe(), names_of(options));
  parts.metadata = whole->metadata();
  parts.remarks = whole->remarks();
  if (whole->vocabulary() != nullptr) {
    parts.vocabulary = std::shared_ptr<const StoredVocabulary>(whole, whole->vocabulary());
  }
  std::vector<KindTally> tallies;
  size_t done = 0;
  for (const StoredTensor& tensor : whole->tensors()) {
    if (options.progress) {
      options.progress(static_cast<double>(done++) / static_cast<double>(whole->tensors().size()));
    }
    parts.tensors.push_back(tensor);
    const std::optional<Quantisation> quantisation =
        is_float(tensor.dtype) ? quantisation_of(tensor.name, tensor.shape, options) : std::nullopt;
    if (!quantisation) continue;
    auto packed = std::make_shared<Packed>();
    FULMAR_ASSIGN(const Energy energy, pack(tensor, *quantisation, importance_of(tensor, options), *packed));
    StoredTensor& result = parts.tensors.back();
    result.dtype = quantisation->dtype;
    result.strides = row_major_strides(result.shape);
    result.data = packed->codes.data();
    result.scales = packed->scales.empty() ? nullptr : packed->scales.data();
    result.group = group_of(*quantisation, result.shape[1]);
    add_to_tally(tallies, tensor, *quantisation, *packed, energy);
    whole->release_pages(tensor);
    parts.owners.push_back(std::move(packed));
  }
  if (options.progress) options.progress(1);
  parts.owners.push_back(whole);
  if (kinds != nullptr) {
    for (KindTally& tally : tallies) {
      tally.kind.bits = 8 * tally.bytes / tally.weights;
      tally.kind.relative_rms =
          tally.energy.weight > 0 ? std::sqrt(tally.energy.error / tally.energy.weight) : 0;
      kinds->push_back(std::move(tally.kind));
    }
  }
  return make_checkpoint(std::move(parts));
}

}  // namespace fulmar
