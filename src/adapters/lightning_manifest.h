// The manifest of rwkv_lightning's MiSS packages, and the digest of package and manifest together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/checkpoint.h"
#include "tensor/format.h"

namespace fulmar {

struct LightningTarget {
  std::string weight;  // "blocks.0.att.key.weight"; its tensor is <weight>.D [outputs, rank]
  int64_t outputs = 0, inputs = 0;
};

struct LightningManifest {
  DType dtype = DType::bf16;  // or f16
  int64_t rank = 0;
  double scale = 0;
  bool masters = false;  // a training checkpoint: f32 <weight>.D.master, to be rounded to dtype
  // 64 hexadecimal digits each; checkpoints without a manifest have no content_version.
  std::string base_fingerprint, content_version;
  std::vector<LightningTarget> targets;
  std::string hashed;  // the text that the digest begins with
};

// Reads a manifest. Errors name the member, found and wanted: unsupported, for other formats, methods, kinds
// and layouts; corrupt, for what contradicts itself.
Result<LightningManifest> read_lightning_manifest(const std::string& text);

// Makes the manifest of a training checkpoint that holds none, from its checkpoint.json and its tensors:
// rank, alpha and base model are of "config", the targets those of the tensors <weight>.D.master, in their
// order. `digest` is that of the file with the tensors. Inputs are 0 where they follow from no other target's
// outputs. Errors as above.
Result<LightningManifest> manifest_of_checkpoint(const std::string& text, const std::string& digest,
                                                 std::span<const StoredTensor> tensors);

// What a package says of itself.
struct LightningFacts {
  DType dtype = DType::bf16;
  int64_t rank = 0;
  double alpha = 0;
  std::string base_fingerprint;
};

// Returns whether MiSS packages may change the matrix.
bool is_lightning_target(std::string_view weight);

// Returns s, as f32.
double scale_of(const LightningFacts& facts);

// Returns the text of a manifest for these facts; content_version is left out where it is empty.
std::string lightning_manifest_text(const LightningFacts& facts, std::span<const LightningTarget> targets,
                                    std::string_view content_version);

}  // namespace fulmar
