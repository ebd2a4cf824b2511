#include "app/models/inspect_adapter.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "adapters/names.h"
#include "adapters/reading.h"

namespace fulmar {
namespace {

// Returns the part of a name that says what a matrix is: "att.key.weight" of "blocks.3.att.key.weight".
std::string kind_of_weight(const std::string& weight) {
  const auto block = layer_name(weight);
  return block ? std::string(block->rest) : weight;
}

std::string ranks_text(const Adapter& adapter) {
  const int64_t least = adapter.least_rank(), most = adapter.most_rank();
  return least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most);
}

void print_deltas(const Adapter& adapter) {
  std::map<std::string_view, size_t> kinds;
  std::map<std::string, size_t> targets;
  std::set<double> scales;
  for (const Delta& delta : adapter.deltas) {
    kinds[name_of(delta.kind)]++;
    targets[kind_of_weight(delta.weight)]++;
    scales.insert(delta.scale);
  }
  for (const auto& [kind, count] : kinds) fmt::print("kind        {} of {} matrices\n", kind, count);
  fmt::print("rank        {}\n", ranks_text(adapter));
  for (const auto& [target, count] : targets) fmt::print("target      {} in {} places\n", target, count);
  if (!adapter.scale_known) {
    fmt::print("scale       alpha / rank; the file does not hold alpha, which must be given with it\n");
  } else {
    fmt::print("scale       {}\n", fmt::join(scales, ", "));
  }
}

void print_tensor(const std::string& name, const HostTensor& tensor) {
  if (!tensor.empty())
    fmt::print("  {:<40} {:<7} {}\n", name, name_of(tensor.dtype), shape_text(tensor.shape));
}

void print_tensors(const Adapter& adapter) {
  for (const Delta& delta : adapter.deltas) {
    print_tensor(delta.weight + " A", delta.a);
    print_tensor(delta.weight + " B", delta.b);
    print_tensor(delta.weight + " D", delta.d);
    print_tensor(delta.weight + " m", delta.m);
  }
  for (const auto* list : {&adapter.whole, &adapter.states}) {
    for (const WholeTensor& tensor : *list) print_tensor(tensor.name, tensor.value);
  }
}

}  // namespace

Status inspect_adapter(const std::filesystem::path& path, bool tensors) {
  AdapterOptions options;
  options.scale_may_lack = true;
  FULMAR_ASSIGN(const Adapter adapter, read_adapter(path, options));
  fmt::print("adapter     {}\nformat      {}\n", path.string(), name_of(adapter.form));
  if (!adapter.deltas.empty()) print_deltas(adapter);
  if (!adapter.whole.empty()) fmt::print("replaces    {} whole tensors\n", adapter.whole.size());
  if (!adapter.states.empty()) fmt::print("states      of {} layers\n", adapter.states.size());
  fmt::print("for         {}\n",
             adapter.version == 0 ? "RWKV-7 or RWKV-6" : fmt::format("RWKV-{}", adapter.version));
  fmt::print("base        {}\n", adapter.base_fingerprint.empty() ? "not said by the file"
                                                                  : "SHA-256 " + adapter.base_fingerprint);
  fmt::print("version     {}\nsize        {} ({} bytes)\n", adapter.content_version,
             size_text(adapter.bytes()), adapter.bytes());
  for (const std::string& remark : adapter.remarks) fmt::print("oddity      {}\n", remark);
  if (tensors) print_tensors(adapter);
  return {};
}

}  // namespace fulmar
