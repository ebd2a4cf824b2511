#include "app/convert/adapter_options.h"

#include <CLI/CLI.hpp>

#include "app/core/option_checks.h"

namespace fulmar {

void add_adapter_options(CLI::App& command, AdapterOptions& options) {
  command
      .add_option("--alpha", options.alpha,
                  "of LoRA files that hold none (RWKV-PEFT, web-rwkv): their scale is alpha / rank")
      ->check(within(-kMostAdapterFactor, kMostAdapterFactor));
  command.add_option("--scale", options.scale, "of the same files: the scale itself")
      ->check(within(-kMostAdapterFactor, kMostAdapterFactor));
  command.add_option_function<std::string>(
      "--init", [&options](const std::string& file) { options.init = file; },
      "PiSSA: the factors that training began with (init_pissa.pth)");
}

}  // namespace fulmar
