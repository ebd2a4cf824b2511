// rwkv_lightning's MiSS: packages in one file or two, and training checkpoints with a manifest inside or a
// checkpoint.json beside.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "adapters/lightning_manifest.h"
#include "adapters/reading.h"
#include "base/sha256.h"

namespace fulmar {
namespace {

constexpr float kMostF16 = 65504;

Error corrupt(std::string text) { return {ErrorKind::corrupt, std::move(text)}; }

class LightningReader {
 public:
  LightningReader(const AdapterSource& source, const LightningManifest& manifest,
                  const AdapterOptions& options)
      : source_(source), manifest_(manifest), builder_(source.form, options) {
    for (const StoredTensor& tensor : source.parts.tensors) tensors_.emplace(tensor.name, &tensor);
  }

  Result<Adapter> run() {
    FULMAR_TRY(check_count());
    Sha256 sum;
    sum.add(manifest_.hashed);
    for (const LightningTarget& target : manifest_.targets) {
      FULMAR_ASSIGN(const HostTensor stored, read_target(target));
      sum.add(as_text(stored.bytes));
      Delta delta;
      delta.weight = target.weight;
      delta.kind = DeltaKind::miss;
      delta.scale = manifest_.scale;
      delta.inputs = target.inputs;
      const StoredTensor turned = transposed(stored.stored({}));
      delta.d = {stored.dtype, turned.shape, gather_contiguous(turned)};
      FULMAR_TRY(builder_.add(std::move(delta)));
    }
    const std::string digest = sum.hex();
    if (!manifest_.content_version.empty() && digest != manifest_.content_version) {
      return corrupt(fmt::format("the content has the digest {}; the manifest says content_version {}",
                                 digest, manifest_.content_version));
    }
    FULMAR_TRY(builder_.note_version(7, "MiSS package"));
    builder_.adapter().base_fingerprint = manifest_.base_fingerprint;
    builder_.adapter().content_version = digest;
    return builder_.finish();
  }

 private:
  // Checks that there is one tensor a target; checkpoints have four, and an initial state.
  Status check_count() const {
    const size_t targets = manifest_.targets.size(), found = source_.parts.tensors.size();
    const size_t wanted = manifest_.masters ? 4 * targets + 1 : targets;
    if (found == wanted) return {};
    return corrupt(fmt::format("{} tensors for {} targets; wanted {}", found, targets, wanted));
  }

  // Returns the numbers of a target, [out, rank] in the manifest's type.
  Result<HostTensor> read_target(const LightningTarget& target) {
    const std::string name = target.weight + (manifest_.masters ? ".D.master" : ".D");
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
      return corrupt(fmt::format("'{}' is in the manifest and not in the file", name));
    const std::vector<int64_t> wanted = {target.outputs, manifest_.rank};
    if (found->second->shape != wanted) {
      return corrupt(fmt::format("'{}' is {}; the manifest says {}", name, shape_text(found->second->shape),
                                 shape_text(wanted)));
    }
    FULMAR_ASSIGN(HostTensor tensor, builder_.read(*found->second));
    const std::vector<float> values = tensor.floats();
    const auto large =
        std::find_if(values.begin(), values.end(), [](float x) { return std::abs(x) > kMostF16; });
    if (large != values.end()) {
      return corrupt(
          fmt::format("'{}' holds {}; wanted at most {}, as f16 can hold", name, *large, kMostF16));
    }
    if (tensor.dtype == manifest_.dtype) return tensor;
    return host_tensor(values, wanted, manifest_.dtype);
  }

  const AdapterSource& source_;
  const LightningManifest& manifest_;
  AdapterBuilder builder_;
  std::unordered_map<std::string_view, const StoredTensor*> tensors_;
};

}  // namespace

Result<Adapter> read_lightning(const AdapterSource& source, const AdapterOptions& options) {
  FULMAR_TRY(refuse_scales(options, "the manifest says it"));
  FULMAR_TRY(refuse_init(options, "MiSS has none"));
  FULMAR_ASSIGN(const LightningManifest manifest,
                source.checkpoint.empty()
                    ? read_lightning_manifest(source.configuration)
                    : manifest_of_checkpoint(source.checkpoint, source.digest, source.parts.tensors));
  return LightningReader(source, manifest, options).run();
}

}  // namespace fulmar
