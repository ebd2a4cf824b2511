// Adapter files of every container, and the configuration of Hugging Face PEFT in front of one: numbers that
// fit their kind, or an error; and nothing that the model cannot take passes the comparison with it. A first
// line that begins with '{' is the configuration of the tensors behind it; that of a checkpoint says "0" as
// their digest.
#include <cmath>

#include "adapters/fit.h"
#include "adapters/reading.h"
#include "fuzz_input.h"

namespace {

using namespace fulmar;

BaseShapes small_base() {
  BaseShapes base{7, 2, 1, 4, false, {}};
  base.tensors["emb.weight"] = base.tensors["head.weight"] = {8, 4};
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    for (const char* name :
         {"att.receptance.weight", "att.key.weight", "att.value.weight", "att.output.weight"}) {
      base.tensors[block + name] = {4, 4};
    }
    base.tensors[block + "ffn.key.weight"] = {8, 4};
    base.tensors[block + "ffn.value.weight"] = {4, 8};
    base.tensors[block + "ln1.weight"] = {4};
    base.tensors[block + "att.w1"] = {4, 2};
  }
  return base;
}

Result<AdapterSource> source_of(ByteSpan file) {
  std::string_view rest = as_text(file);
  if (!rest.starts_with('{')) return adapter_in(file);
  AdapterSource source;
  source.configuration = take_until(rest, "\n");
  source.form =
      source.configuration.find("miss") == std::string::npos ? AdapterForm::peft : AdapterForm::lightning;
  if (source.configuration.find("miss_training_checkpoint") != std::string::npos) {
    source.checkpoint = source.configuration;
    source.digest = "0";
  }
  FULMAR_ASSIGN(source.parts, tensors_in(std::as_bytes(std::span(rest))));
  return source;
}

void expect_finite(const HostTensor& tensor) {
  if (tensor.empty()) return;
  for (const float value : tensor.floats()) expect(std::isfinite(value));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<AdapterSource> source = source_of({reinterpret_cast<const std::byte*>(data), size});
  if (!source.ok()) return 0;
  AdapterOptions options;
  options.scale_may_lack = true;
  options.most_bytes = 1 << 20;
  Result<Adapter> adapter = read_adapter(*source, options);
  if (!adapter.ok()) return 0;
  expect(adapter->bytes() <= 2 * options.most_bytes);
  const BaseShapes base = small_base();
  if (!fit_adapter(*adapter, base).ok()) return 0;
  for (const Delta& delta : adapter->deltas) {
    expect(std::isfinite(delta.scale) && delta.rank() >= 1 && delta.rank() <= kMostAdapterRank &&
           !delta.mini);
    const LinearShape linear = linear_of(base, delta.weight).value();
    if (!delta.a.empty()) expect(delta.a.shape[1] == linear.in && delta.b.shape[0] == linear.out);
    for (const HostTensor* part : {&delta.a, &delta.b, &delta.d, &delta.m}) expect_finite(*part);
  }
  for (const WholeTensor& whole : adapter->whole) expect_finite(whole.value);
  for (const WholeTensor& state : adapter->states) expect_finite(state.value);
  return 0;
}
