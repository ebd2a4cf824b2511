#include "app/convert/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "app/core/model_source.h"
#include "app/eval/eval_suite.h"
#include "base/read_file.h"
#include "cpu/cpu_ops.h"
#include "files/checkpoint.h"
#include "files/identify.h"
#include "model/model.h"
#include "model/state_pool.h"

namespace fulmar {

namespace {

constexpr size_t kMostBytes = 16 * kMostCalibrationTokens;  // most bytes of the file to read
constexpr int64_t kRowsAtOnce = 256;
constexpr float kUnseenShare = 0.05f;

// Sums of squares of inputs, by the matrix that they go into.
class InputSquares {
 public:
  explicit InputSquares(const Checkpoint& checkpoint) {
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      if (!is_large_matrix(tensor.name)) continue;
      sums_[tensor.data] = {tensor.name, std::vector<double>(static_cast<size_t>(tensor.shape[1]))};
    }
  }

  void add(const std::byte* matrix, Tensor in) {
    const auto found = sums_.find(matrix);
    if (found == sums_.end()) return;
    std::vector<double>& squares = found->second.squares;
    for (int64_t row = 0; row < in.rows; row++) {
      const float* const x = in.row<float>(row);
      for (size_t i = 0; i < squares.size(); i++) squares[i] += static_cast<double>(x[i] * x[i]);
    }
  }

  Importance importance() const {
    Importance importance;
    for (const auto& [place, sum] : sums_) {
      const double mean = std::accumulate(sum.squares.begin(), sum.squares.end(), 0.0) /
                          static_cast<double>(sum.squares.size());
      if (!(mean > 0)) continue;  // no input reached it
      std::vector<float>& columns = importance[sum.name];
      for (const double square : sum.squares) {
        columns.push_back(static_cast<float>(square / mean) + kUnseenShare);
      }
    }
    return importance;
  }

 private:
  struct Sum {
    std::string name;
    std::vector<double> squares;
  };
  std::unordered_map<const std::byte*, Sum> sums_;
};

// Token sequences, each read from the zero state.
using Texts = std::vector<std::vector<int32_t>>;

Result<Texts> read_texts(const CalibrationOptions& options, const Tokenizer& tokenizer) {
  const std::string name = options.text.string();
  FULMAR_ASSIGN(std::string content, read_beginning(options.text, kMostBytes));
  if (options.text.extension() != ".jsonl") return Texts{tokenizer.encode(content)};
  if (content.size() == kMostBytes) content.resize(content.rfind('\n') + 1);
  FULMAR_ASSIGN(const auto cases, parse_suite(content, name));
  Texts texts;
  for (const SuiteCase& one : cases) texts.push_back(tokenizer.encode(one.prompt + one.answer));
  return texts;
}

// Cuts off tokens beyond the bound; returns the number that remain.
size_t shorten(Texts& texts) {
  size_t total = 0;
  for (auto& text : texts) {
    text.resize(std::min(text.size(), kMostCalibrationTokens - total));
    total += text.size();
  }
  return total;
}

Status read_all(Model& model, const Texts& texts, size_t total, const CalibrationOptions& options) {
  FULMAR_ASSIGN(StatePool states, model.make_states(1));
  size_t done = 0;
  for (const auto& text : texts) {
    states.zero(0);
    for (size_t at = 0; at < text.size(); at += kRowsAtOnce) {
      const auto part = std::span(text).subspan(at, std::min<size_t>(kRowsAtOnce, text.size() - at));
      const int32_t start[] = {0, static_cast<int32_t>(part.size())}, slot[] = {0};
      const int32_t wanted[] = {start[1] - 1};  // so that the head is read as well
      model.forward({part, start, slot, wanted}, states);
      done += part.size();
      if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(total));
    }
  }
  return {};
}

}  // namespace

Result<Importance> calibrate(const CalibrationOptions& options) {
  FULMAR_ASSIGN(auto checkpoint, open_checkpoint(options.model));
  FULMAR_ASSIGN(const ModelConfig config, identify(*checkpoint));
  FULMAR_ASSIGN(const auto tokenizer, tokenizer_of(*checkpoint, options.model, config.vocab, options.vocab));
  FULMAR_ASSIGN(Texts texts, read_texts(options, *tokenizer));
  const size_t total = shorten(texts);
  if (total < kLeastCalibrationTokens) {
    return Error{ErrorKind::invalid, fmt::format("'{}' has {} tokens; wanted at least {} to calibrate on",
                                                 options.text.string(), total, kLeastCalibrationTokens)};
  }
  InputSquares inputs(*checkpoint);
  const auto ops =
      make_observed_cpu_ops({}, [&](const std::byte* matrix, Tensor in) { inputs.add(matrix, in); });
  FULMAR_ASSIGN(const auto model, Model::load(std::move(checkpoint), *ops,
                                              {.max_rows = kRowsAtOnce, .max_wanted = 1, .slots = 1}));
  FULMAR_TRY(read_all(*model, texts, total, options));
  return inputs.importance();
}

}  // namespace fulmar
