#include "app/convert/convert_adapter.h"

#include <fmt/core.h>

#include <filesystem>

#include "adapters/fit.h"
#include "adapters/writing.h"
#include "app/core/model_source.h"
#include "base/sha256.h"
#include "base/write_file.h"
#include "files/identify.h"
#include "files/mapped_file.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

// Returns the form that is to be written.
Result<AdapterForm> form_of(const ConvertAdapterFlags& flags) {
  const std::string ending = fs::path(flags.out).extension().string();
  const std::string to = !flags.to.empty()   ? flags.to
                         : ending == ".gguf" ? "gguf"
                         : ending == ".pth"  ? "lightning"
                         : ending.empty()    ? "peft"
                                             : "";
  if (to == "peft") return AdapterForm::peft;
  if (to == "lightning") return AdapterForm::lightning;
  if (to == "gguf") return AdapterForm::gguf;
  return Error{ErrorKind::invalid,
               fmt::format("'{}' ends in '{}'; wanted .gguf, .pth (rwkv_lightning), a folder's name "
                           "(Hugging Face PEFT), or --to",
                           flags.out, ending)};
}

Status check_target(const ConvertAdapterFlags& flags, AdapterForm form) {
  std::error_code error;
  const bool there = fs::exists(flags.out, error);
  if (there && !flags.force) {
    return Error{ErrorKind::invalid, fmt::format("'{}' exists; --force replaces it", flags.out)};
  }
  if (there && fs::is_directory(flags.out, error) != (form == AdapterForm::peft)) {
    return Error{
        ErrorKind::invalid,
        fmt::format("'{}' is {}; {} is {}", flags.out, form == AdapterForm::peft ? "no folder" : "a folder",
                    name_of(form), form == AdapterForm::peft ? "one" : "a file")};
  }
  return form == AdapterForm::peft ? Status() : check_replaceable(flags.out);
}

// Compares the adapter with its base model, which says what the adapter does not.
Result<AdapterFacts> facts_of(const ConvertAdapterFlags& flags, AdapterForm form, Adapter& adapter) {
  AdapterFacts facts;
  if (flags.base.empty()) return facts;
  FULMAR_ASSIGN(const fs::path path, find_model(flags.base));
  FULMAR_ASSIGN(const auto model, open_checkpoint(path));
  FULMAR_ASSIGN(const ModelConfig config, identify(*model));
  FULMAR_TRY(fit_adapter(adapter, base_shapes(*model, config)));
  facts.version = config.version;
  if (form != AdapterForm::lightning) return facts;
  FULMAR_ASSIGN(const auto file, MappedFile::open(path));
  facts.base_fingerprint = sha256_hex(as_text(file->bytes()));
  FULMAR_TRY(check_fingerprint(adapter, facts.base_fingerprint));
  return facts;
}

}  // namespace

Status convert_adapter(const ConvertAdapterFlags& flags) {
  FULMAR_ASSIGN(const AdapterForm form, form_of(flags));
  FULMAR_TRY(check_target(flags, form));
  FULMAR_ASSIGN(Adapter adapter, read_adapter(flags.in, flags.options));
  const auto facts = facts_of(flags, form, adapter);
  const Status written = facts.ok() ? write_adapter(flags.out, form, adapter, *facts) : facts.error();
  if (!written.ok()) {
    return Error{written.error().kind, fmt::format("{}: {}", flags.in, written.error().text)};
  }
  fmt::print("{}: {}, {} matrices, {} whole tensors\n", flags.out, name_of(form), adapter.deltas.size(),
             adapter.whole.size());
  return {};
}

}  // namespace fulmar
