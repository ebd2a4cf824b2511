// Writes an adapter in a form of another program. What a form cannot hold is refused by the tensor's name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "adapters/adapter.h"
#include "base/result.h"

namespace fulmar {

// What an adapter does not say itself and a form needs.
struct AdapterFacts {
  int version = 0;               // of the models it is for; 0: unknown
  std::string base_fingerprint;  // SHA-256 of the base model's file; empty: unknown
};

// Returns whether write_adapter writes the form: peft, lightning or gguf.
bool is_written(AdapterForm form);

// Writes a folder (peft) or a file (lightning, gguf), over one that is there. Numbers keep their types but
// for f32 of MiSS packages, which becomes bf16, and for factors that take in a scale that the form cannot
// say: they become f32. Errors: unsupported, for what the form cannot hold; invalid, for facts that are
// missing; io.
Status write_adapter(const std::filesystem::path& path, AdapterForm form, const Adapter& adapter,
                     const AdapterFacts& facts);

// Writes one form each. The adapter has at least one tensor.
Status write_peft(const std::filesystem::path& folder, const Adapter& adapter);
Status write_lightning(const std::filesystem::path& file, const Adapter& adapter, const AdapterFacts& facts);
Status write_gguf_lora(const std::filesystem::path& file, const Adapter& adapter, const AdapterFacts& facts);

// Returns the error that a form lacks a place for a tensor.
Error no_place_for(std::string_view name, std::string_view what, std::string_view form);

// Returns a delta with s = 1 whose last factor has taken s in, as f32 where its own type would round.
Delta with_scale_inside(const Delta& delta);

// Returns the alpha that a reader divides by `divisor` to get the scale; nothing where no number of the type
// gives it exactly. Number: float or double, which the reader divides in.
template <class Number>
std::optional<Number> alpha_of(Number scale, Number divisor);

}  // namespace fulmar
