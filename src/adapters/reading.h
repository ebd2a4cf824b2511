// The second step of reading an adapter: from the tensors and the configuration of its form to the plain
// form. One file reads each form. No model is known here: fit.h compares with one.
#pragma once

#include <filesystem>
#include <optional>

#include "adapters/adapter.h"
#include "adapters/source.h"
#include "base/result.h"

namespace fulmar {

// The largest |alpha| and |scale| that a user may say.
inline constexpr double kMostAdapterFactor = 1e6;

// What a user says beside the file.
struct AdapterOptions {
  // Of RWKV-PEFT's and web-rwkv's low-rank pairs, whose files hold neither: s = alpha / r, or s itself. A
  // form that says its own s, or has none, refuses both.
  std::optional<double> alpha, scale;
  std::filesystem::path init;   // PiSSA: the factors that training began with (init_pissa.pth); empty: none
  bool scale_may_lack = false;  // for a look at a file: without alpha and scale, s is 1 and scale_known false
  uint64_t most_bytes = uint64_t{4} << 30;  // of all numbers in memory
};

// Collects what a file does, and refuses what cannot be right whatever the model is: one name twice, numbers
// that are not finite, ranks beyond 1 to kMostAdapterRank, parts that do not fit each other.
class AdapterBuilder {
 public:
  explicit AdapterBuilder(AdapterForm form, const AdapterOptions& options);

  // Copies a tensor's numbers, within the bound on all of them together.
  Result<HostTensor> read(const StoredTensor& stored);

  Status add(Delta delta);
  // Adds a tensor that takes the model's place, or an initial state, by its name.
  Status add_whole(const std::string& name, const StoredTensor& stored, bool key_major = false);
  // Notes the version of the models that have a name; two that differ are an error.
  Status note_version(int version, std::string_view name);
  void remark(std::string text) { adapter_.remarks.push_back(std::move(text)); }
  Adapter& adapter() { return adapter_; }

  // Sorts, computes the content version where the form has none, and checks that there is anything.
  Result<Adapter> finish();

 private:
  Adapter adapter_;
  uint64_t bytes_ = 0;
  const uint64_t most_bytes_;
};

Result<Adapter> read_rwkv_peft(const AdapterSource& source, const AdapterOptions& options);
Result<Adapter> read_peft(const AdapterSource& source, const AdapterOptions& options);
Result<Adapter> read_lightning(const AdapterSource& source, const AdapterOptions& options);
Result<Adapter> read_gguf_lora(const AdapterSource& source, const AdapterOptions& options);
Result<Adapter> read_web_rwkv(const AdapterSource& source, const AdapterOptions& options);

// Reads the text of such a file as that beside an adapter, named `name`: {"alpha": A} or {"scale": S}. Errors
// name the member, found and wanted.
Status read_sidecar(std::string_view name, const std::string& text, AdapterOptions& options);

// Reads the adapter at a path, or that of an opened source. Errors of the first begin with the path. Where
// the form needs alpha or scale and neither is given, the first takes it from a file of the same name that
// ends in ".json", if there is one: an object with "alpha" or "scale".
Result<Adapter> read_adapter(const std::filesystem::path& path, const AdapterOptions& options = {});
Result<Adapter> read_adapter(const AdapterSource& source, const AdapterOptions& options = {});

// Returns s of a low-rank pair in a form whose files do not hold alpha.
Result<double> scale_of_pair(std::string_view weight, int64_t rank, const AdapterOptions& options);

// Fails if alpha, scale or init is given to a form or file where it has no effect; `why` says why it has
// none.
Status refuse_scales(const AdapterOptions& options, std::string_view why);
Status refuse_init(const AdapterOptions& options, std::string_view why);

}  // namespace fulmar
