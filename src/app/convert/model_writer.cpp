#include "app/convert/model_writer.h"

#include <fmt/core.h>

#include "app/core/model_source.h"
#include "app/core/progress_bar.h"
#include "base/write_file.h"
#include "files/coded_tensors.h"
#include "files/gguf_writer.h"
#include "files/pth_writer.h"
#include "files/safetensors.h"
#include "tensor/convert.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

// Returns a tokenizer's tokens in the form of a file.
StoredVocabulary tokens_of(const Tokenizer& tokenizer) {
  StoredVocabulary tokens;
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); id++) {
    const std::string_view bytes = tokenizer.bytes(id);
    if (!bytes.empty()) tokens.push_back({id, std::string(bytes)});
  }
  return tokens;
}

Status write_as_gguf(const OutputFlags& flags, const fs::path& in, const Checkpoint& checkpoint,
                     const ModelConfig& config) {
  StoredVocabulary tokens;
  const auto tokenizer = tokenizer_of(checkpoint, in, config.vocab, flags.vocab);
  if (tokenizer.ok()) {
    tokens = tokens_of(**tokenizer);
  } else if (!flags.vocab.empty()) {
    return tokenizer.error();
  } else {
    fmt::print(stderr, "fulmar: {}; the file is written without a vocabulary\n", tokenizer.error().text);
  }
  ProgressBar bar(flags.quiet ? std::string() : "writing");
  const auto named = checkpoint.metadata().find("general.name");
  GgufModelOptions options;
  options.name = named == checkpoint.metadata().end() ? in.stem().string() : named->second;
  options.vocabulary = tokenizer.ok() ? &tokens : nullptr;
  FULMAR_ASSIGN(const GgufModel model, gguf_of(checkpoint, config, options));
  return write_gguf(flags.out, model.keys, model.tensors, [&](double fraction) { bar.show(fraction); });
}

// Writes safetensors. Block formats have no name there: they are decoded to f16.
Status write_as_safetensors(const OutputFlags& flags, const Checkpoint& checkpoint) {
  PlainTensors plain = split_codes(checkpoint.tensors());
  std::vector<std::vector<std::byte>> decoded;
  for (StoredTensor& tensor : plain.tensors) {
    if (!is_block(tensor.dtype)) continue;
    std::vector<float> values(static_cast<size_t>(tensor.count()));
    copy_as_f32(tensor, values);
    decoded.emplace_back(values.size() * size_of(DType::f16));
    from_f32(values, DType::f16, decoded.back().data());
    tensor.dtype = DType::f16;
    tensor.data = decoded.back().data();
  }
  return write_safetensors(flags.out, plain.tensors, checkpoint.metadata());
}

// Writes .pth with official names, and f16 for types that PyTorch lacks.
Status write_as_pth(const OutputFlags& flags, const Checkpoint& checkpoint) {
  ProgressBar bar(flags.quiet ? std::string() : "writing");
  return write_pth(flags.out, checkpoint.tensors(), [&](double fraction) { bar.show(fraction); });
}

}  // namespace

std::string_view ending_of(OutputKind kind) {
  constexpr std::string_view kEndings[] = {".gguf", ".safetensors", ".pth"};
  return kEndings[static_cast<size_t>(kind)];
}

std::optional<OutputKind> target_of(const OutputFlags& flags) {
  const std::string ending = fs::path(flags.out).extension().string();
  if (ending == ".gguf") return OutputKind::gguf;
  if (ending == ".safetensors" || ending == ".st") return OutputKind::safetensors;
  if (ending == ".pth") return OutputKind::pth;
  return std::nullopt;
}

Status check_target(const OutputFlags& flags) {
  if (!target_of(flags)) {
    return Error{ErrorKind::invalid, fmt::format("'{}' ends in '{}'; wanted .gguf, .safetensors or .pth",
                                                 flags.out, fs::path(flags.out).extension().string())};
  }
  std::error_code error;
  if (!flags.force && fs::exists(flags.out, error))
    return Error{ErrorKind::invalid, fmt::format("'{}' exists; --force replaces it", flags.out)};
  return check_replaceable(flags.out);
}

void print_written(const std::string& in, const std::string& out) {
  const auto before = fs::file_size(in), after = fs::file_size(out);
  fmt::print("{}: {} ({:.0f} % of {})\n", out, size_text(after),
             100.0 * static_cast<double>(after) / static_cast<double>(before), size_text(before));
}

Status write_model(const OutputFlags& flags, const fs::path& in, const Checkpoint& checkpoint,
                   const ModelConfig& config) {
  switch (*target_of(flags)) {
    case OutputKind::gguf:
      return write_as_gguf(flags, in, checkpoint, config);
    case OutputKind::safetensors:
      return write_as_safetensors(flags, checkpoint);
    case OutputKind::pth:
      break;
  }
  return write_as_pth(flags, checkpoint);
}

}  // namespace fulmar
