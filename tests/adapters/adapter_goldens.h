// The golden adapters beside the checkout: files, what they decode to, and the models that they are for.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/fit.h"
#include "adapters/reading.h"
#include "files/identify.h"
#include "support/shared_files.h"
#include "support/temp_folder.h"

namespace fulmar::test {

// A model with what adapters are compared with.
struct Base {
  std::unique_ptr<Checkpoint> checkpoint;
  ModelConfig config;
  BaseShapes shapes;
};

// Opens a model below shared/models; fails the running test where it cannot.
inline Base open_base(const std::string& name) {
  Base base;
  auto checkpoint = open_checkpoint(support::shared_folder() / "models" / name);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().text;
  base.checkpoint = std::move(checkpoint).value();
  auto config = identify(*base.checkpoint);
  EXPECT_TRUE(config.ok()) << config.error().text;
  base.config = std::move(config).value();
  base.shapes = base_shapes(*base.checkpoint, base.config);
  return base;
}

// Reads the golden hostile files. They hold an infinity, which JSON lacks; it becomes text here.
inline support::Json read_hostile() {
  std::ifstream file(support::shared_folder() / "golden" / "adapters-hostile.json");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  constexpr std::string_view kInfinity = ": Infinity";
  const size_t at = text.find(kInfinity);
  if (at != std::string::npos) text.replace(at, kInfinity.size(), ": \"Infinity\"");
  return text.empty() ? support::Json() : support::Json::parse(text);
}

// Reads the options of a golden case; `folder` holds its files.
inline AdapterOptions options_of(const support::Json& json, const std::filesystem::path& folder) {
  AdapterOptions options;
  if (json.contains("alpha")) {
    options.alpha =
        json["alpha"] == "Infinity" ? std::numeric_limits<double>::infinity() : json["alpha"].get<double>();
  }
  if (json.contains("scale")) options.scale = json["scale"].get<double>();
  if (json.contains("init")) options.init = folder / json["init"].get<std::string>();
  return options;
}

// Reads an adapter and compares it with the model, as all that use adapters do.
inline Result<Adapter> read_for(const std::filesystem::path& path, const AdapterOptions& options,
                                const BaseShapes& base) {
  FULMAR_ASSIGN(Adapter adapter, read_adapter(path, options));
  FULMAR_TRY(fit_adapter(adapter, base));
  return adapter;
}

// The checksum of golden files.
inline double checksum(const std::vector<float>& values) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); i++) {
    sum += static_cast<double>(values[i]) * static_cast<double>((i * 7919) % 1009) / 1009.0;
  }
  return sum;
}

// Compares logits with those of a golden run, which has all of them, or the first and the last.
inline void expect_logits(const std::vector<float>& got, const support::Json& run) {
  ASSERT_FALSE(got.empty());
  const bool all = run.contains("logits");
  const std::vector<double> first = run[all ? "logits" : "first"];
  const std::vector<double> last = all ? std::vector<double>() : run["last"].get<std::vector<double>>();
  double most = 0;  // without the logits of ids that the vocabulary lacks
  for (const double one : first) most = std::abs(one) < 9999 ? std::max(most, std::abs(one)) : most;
  const double bound = 1e-4 * std::max(1.0, most / 20);
  for (size_t i = 0; i < first.size(); i++) {
    if (std::abs(first[i]) > 9999) continue;
    EXPECT_NEAR(static_cast<double>(got[i]), first[i], bound) << "logit " << i;
  }
  for (size_t i = 0; i < last.size(); i++) {
    EXPECT_NEAR(static_cast<double>(got[got.size() - last.size() + i]), last[i], bound);
  }
}

}  // namespace fulmar::test
