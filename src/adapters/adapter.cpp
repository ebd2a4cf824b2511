#include "adapters/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/sha256.h"

namespace fulmar {
namespace {

constexpr std::array<std::string_view, 6> kFormNames = {"RWKV-PEFT", "Hugging Face PEFT", "rwkv_lightning",
                                                        "GGUF LoRA", "web-rwkv",          "tuned state"};
constexpr std::array<std::string_view, 6> kKindNames = {
    "LoRA", "MiSS", "Bat by inputs", "Bat by outputs", "DoRA by outputs", "DoRA by inputs"};

void add_tensor(Sha256& sum, std::string_view name, const HostTensor& tensor) {
  sum.add(fmt::format("{} {} {}\n", name, name_of(tensor.dtype), shape_text(tensor.shape)));
  sum.add(as_text(tensor.bytes));
}

}  // namespace

std::string_view name_of(AdapterForm form) { return kFormNames[static_cast<size_t>(form)]; }
std::string_view name_of(DeltaKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

int64_t Delta::rank() const {
  if (kind == DeltaKind::miss) return d.shape[0];
  return d.empty() ? a.shape[0] : d.shape[1];
}

uint64_t Adapter::bytes() const {
  uint64_t sum = 0;
  for (const Delta& delta : deltas) {
    for (const HostTensor* part : {&delta.a, &delta.b, &delta.d, &delta.m}) sum += part->bytes.size();
  }
  for (const auto* list : {&whole, &states}) {
    for (const WholeTensor& tensor : *list) sum += tensor.value.bytes.size();
  }
  return sum;
}

int64_t Adapter::least_rank() const {
  int64_t least = deltas.empty() ? 0 : kMostAdapterRank;
  for (const Delta& delta : deltas) least = std::min(least, delta.rank());
  return least;
}

int64_t Adapter::most_rank() const {
  int64_t most = 0;
  for (const Delta& delta : deltas) most = std::max(most, delta.rank());
  return most;
}

std::string digest_of(const Adapter& adapter) {
  Sha256 sum;
  for (const Delta& delta : adapter.deltas) {
    sum.add(fmt::format("{} {} {}\n", delta.weight, name_of(delta.kind), delta.scale));
    for (const HostTensor* part : {&delta.a, &delta.b, &delta.d, &delta.m}) add_tensor(sum, "", *part);
  }
  for (const auto* list : {&adapter.whole, &adapter.states}) {
    for (const WholeTensor& tensor : *list) add_tensor(sum, tensor.name, tensor.value);
  }
  return sum.hex();
}

}  // namespace fulmar
