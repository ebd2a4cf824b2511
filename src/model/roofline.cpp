#include "model/roofline.h"

#include <algorithm>
#include <cmath>

namespace fulmar {

double StepWork::weight_bytes() const {
  double sum = 0;
  for (const MatrixWork& one : matrices) sum += one.bytes;
  return sum;
}

double StepWork::flop() const {
  double sum = 0;
  for (const MatrixWork& one : matrices) sum += one.flop;
  return sum;
}

StepWork& StepWork::operator+=(const StepWork& other) {
  matrices.insert(matrices.end(), other.matrices.begin(), other.matrices.end());
  state_bytes += other.state_bytes;
  logit_bytes += other.logit_bytes;
  return *this;
}

namespace {

// Returns the bytes of one sequence's state and ring that a step reads and writes.
double state_traffic(const StateLayout& layout, const RingLayout& ring, bool single) {
  const auto layers = static_cast<double>(layout.n_layer);
  const auto all = static_cast<double>(layout.slot_bytes());
  const double every = single ? static_cast<double>(ring.write_every) : 1;
  size_t deferred = 0;
  for (const FieldSpec& field : layout.fields) {
    if (field.roll_back == FieldSpec::RollBack::replayed) deferred += layout.field_bytes(field);
  }
  const double unwritten = layers * static_cast<double>(deferred) * (1 - 1 / every);
  const auto part =
      static_cast<double>(ring.part_bytes(layout.head_size) * static_cast<size_t>(layout.n_head));
  // Of M steps the first replays no row and the last appends none.
  const double ring_rows = (every - 1) / 2 + (every - 1) / every;
  return 2 * all - unwritten + layers * part * ring_rows;
}

}  // namespace

StepWork step_work(const ModelConfig& config, const StateLayout& layout, const StepRows& shape, double zeros,
                   const RingLayout& ring) {
  const auto table = static_cast<double>(config.vocab * config.n_embd);
  const auto deep = static_cast<double>(
      config.deep_embed ? config.n_layer * config.vocab * config.deep_embed_rank * config.deep_embed_rank
                        : 0);
  const auto value = static_cast<double>(config.n_layer * config.n_ffn * config.n_embd);
  const double dense = static_cast<double>(config.parameters) - 2 * table - deep - value;
  const auto rows = static_cast<double>(shape.rows), wanted = static_cast<double>(shape.wanted);
  const double kept = zeros > 0 ? 1 - std::pow(zeros, rows) : 1;
  const Format& format = format_of(config.dtype);
  const double bytes = static_cast<double>(format.bytes) / static_cast<double>(format.block);

  StepWork work;
  work.matrices.push_back({dense * bytes, 2 * dense * rows});
  work.matrices.push_back({value * kept * bytes, 2 * value * rows});
  if (shape.wanted > 0) work.matrices.push_back({table * bytes, 2 * table * wanted});
  work.state_bytes =
      static_cast<double>(shape.sequences) * state_traffic(layout, ring, shape.rows == shape.sequences);
  work.logit_bytes = wanted * static_cast<double>(config.vocab) * sizeof(float);
  return work;
}

double roofline_seconds(const StepWork& work, const Ceilings& ceilings) {
  if (ceilings.read_gbs <= 0 || ceilings.gflops <= 0) return 0;
  const double copy_gbs = ceilings.copy_gbs > 0 ? ceilings.copy_gbs : ceilings.read_gbs;
  double nanoseconds = (work.state_bytes + work.logit_bytes) / copy_gbs;
  for (const MatrixWork& one : work.matrices) {
    nanoseconds += std::max(one.bytes / ceilings.read_gbs, one.flop / ceilings.gflops);
  }
  return nanoseconds / 1e9;
}

}  // namespace fulmar
