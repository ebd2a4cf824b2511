// Wires the CPU kernels into Ops and owns what they need: threads, copied weights, the step's index arrays.
#include "cpu/cpu_ops.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "cpu/linear.h"
#include "cpu/norm_mix.h"
#include "cpu/row_math.h"
#include "cpu/thread_pool.h"
#include "cpu/wkv.h"
#include "tensor/convert.h"

namespace fulmar {

namespace {

constexpr size_t kAlignment = 64;

int usable_cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

WeightKind kind_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return WeightKind::f16;
    case DType::bf16:
      return WeightKind::bf16;
    default:
      return WeightKind::f32;
  }
}

bool kept_as_stored(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

template <class Element>
void copy_strided(const HostMatrix& from, void* to) {
  // Square tiles keep both sides in cache when the source is transposed.
  constexpr int64_t kTile = 32;
  auto* out = static_cast<Element*>(to);
  for (int64_t i0 = 0; i0 < from.rows; i0 += kTile) {
    for (int64_t j0 = 0; j0 < from.cols; j0 += kTile) {
      for (int64_t i = i0; i < std::min(from.rows, i0 + kTile); i++) {
        for (int64_t j = j0; j < std::min(from.cols, j0 + kTile); j++) {
          const auto index = static_cast<size_t>(i * from.row_stride + j * from.col_stride);
          std::memcpy(&out[i * from.cols + j], from.data + index * sizeof(Element), sizeof(Element));
        }
      }
    }
  }
}

class CpuOps final : public Ops {
 public:
  explicit CpuOps(const CpuOptions& options)
      : pool_(options.threads > 0 ? options.threads : usable_cores()) {}

  std::string name() const override {
    return std::string("cpu (") + cpu::instruction_set() + ", " + std::to_string(pool_.size()) + " threads)";
  }
  DType activation_dtype() const override { return DType::f32; }
  bool borrows_host_weights() const override { return true; }

  size_t memory_free() const override {
    std::ifstream meminfo("/proc/meminfo");
    for (std::string key, rest; meminfo >> key && std::getline(meminfo, rest);) {
      if (key == "MemAvailable:") return static_cast<size_t>(std::strtoull(rest.c_str(), nullptr, 10)) * 1024;
    }
    return std::numeric_limits<size_t>::max();
  }

  Result<Buffer> allocate(size_t bytes) override {
    const size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* data = padded >= bytes ? std::aligned_alloc(kAlignment, std::max(padded, kAlignment)) : nullptr;
    if (data == nullptr) {
      return Error{ErrorKind::resource, "cannot allocate " + std::to_string(bytes) + " bytes of memory"};
    }
    return Buffer(data, bytes, [](void* owned) { std::free(owned); });
  }
  void write(void* target, const void* host, size_t bytes) override { std::memcpy(target, host, bytes); }
  void read(void* host, const void* source, size_t bytes) override { std::memcpy(host, source, bytes); }
  void synchronise() override {}

  Result<Weight> import_weight(const HostMatrix& matrix, WeightRole) override {
    const bool as_stored = kept_as_stored(matrix.dtype);
    const WeightKind kind = kind_of(matrix.dtype);
    if (as_stored && matrix.row_major()) {
      return Weight{kind, matrix.rows, matrix.cols, matrix.data, false};
    }
    const size_t count = static_cast<size_t>(matrix.rows * matrix.cols);
    FULMAR_ASSIGN(Buffer owned, allocate(count * bytes_per_parameter(kind)));
    if (!as_stored) {
      convert_strided(matrix, static_cast<float*>(owned.data()));
    } else if (size_of(matrix.dtype) == 2) {
      copy_strided<uint16_t>(matrix, owned.data());
    } else {
      copy_strided<float>(matrix, owned.data());
    }
    owned_.push_back(std::move(owned));
    return Weight{kind, matrix.rows, matrix.cols, owned_.back().data(), false};
  }

  Result<Tensor> import_vector(std::span<const float> values, int64_t rows, int64_t cols) override {
    FULMAR_CHECK(static_cast<int64_t>(values.size()) == rows * cols);
    FULMAR_ASSIGN(Buffer owned, allocate(values.size_bytes()));
    std::memcpy(owned.data(), values.data(), values.size_bytes());
    owned_.push_back(std::move(owned));
    return owned_.back().matrix(DType::f32, rows, cols);
  }

  Batch begin_step(const StepInput& input, const State&) override {
    const auto keep = [](std::span<const int32_t> from, std::vector<int32_t>& to) {
      to.assign(from.begin(), from.end());
      return to.data();
    };
    Batch batch;
    batch.rows = static_cast<int64_t>(input.token.size());
    batch.sequences = static_cast<int64_t>(input.slot.size());
    batch.wanted = static_cast<int64_t>(input.wanted.size());
    batch.token = keep(input.token, token_);
    batch.start = keep(input.start, start_);
    batch.slot = keep(input.slot, slot_);
    batch.wanted_row = keep(input.wanted, wanted_);
    sequence_of_.resize(input.token.size());
    for (int64_t s = 0; s < batch.sequences; s++) {
      std::fill(sequence_of_.begin() + start_[s], sequence_of_.begin() + start_[s + 1], s);
      batch.longest = std::max<int64_t>(batch.longest, start_[s + 1] - start_[s]);
    }
    batch.sequence_of = sequence_of_.data();
    return batch;
  }

  void zero_slot(const State& state, int64_t slot) override {
    std::memset(slot_at(state, slot), 0, state.layout.slot_bytes());
  }
  void copy_slot(const State& state, int64_t from, int64_t to) override {
    if (from != to) std::memcpy(slot_at(state, to), slot_at(state, from), state.layout.slot_bytes());
  }

  void embed(const Batch& batch, const Embedding& embedding, Tensor out) override {
    cpu::embed(pool_, batch, embedding, out);
  }
  void add(Tensor x, Tensor pending) override { cpu::add(pool_, x, pending); }
  void norm(Tensor x, const Norm& norm, Tensor out) override { cpu::norm(pool_, x, norm, out); }
  void shift(const Batch& batch, Tensor z, StateField carry, Tensor out) override {
    cpu::shift(pool_, batch, z, carry, out);
  }
  void lerp(Tensor z, Tensor other, Tensor mix, Tensor out) override { cpu::lerp(pool_, z, other, mix, out); }
  void lerp_shifted(Tensor z, Tensor other, Tensor mix, Tensor delta, Tensor out) override {
    cpu::lerp_shifted(pool_, z, other, mix, delta, out);
  }
  void linear(Tensor in, const Weight& weight, Tensor out) override {
    fulmar::linear(pool_, in, weight, out);
  }
  void activate(Tensor x, Tensor bias, Activation act) override { cpu::activate(pool_, x, bias, act); }
  void add_bias(Tensor x, Tensor bias) override { cpu::add_bias(pool_, x, bias); }
  void multiply(Tensor a, Tensor b, Tensor out) override { cpu::multiply(pool_, a, b, out); }
  void key_prepare7(const TimeMix7& att, Tensor k, Tensor alpha, Tensor kk) override {
    cpu::key_prepare7(pool_, att, k, alpha, kk);
  }
  void wkv7(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv, Tensor y) override {
    cpu::wkv7(pool_, batch, att, p, wkv, y);
  }
  void wkv6(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv, Tensor y) override {
    cpu::wkv6(pool_, batch, att, p, wkv, y);
  }
  void head_norm(int64_t n_head, const Norm& ln_x, Tensor y) override {
    cpu::head_norm(pool_, n_head, ln_x, y);
  }
  void bonus7(const TimeMix7& att, const Projected7& p, Tensor y) override { cpu::bonus7(pool_, att, p, y); }

  void deep_embed(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor z,
                  Tensor scale) override {
    const int64_t rank = ffn.deep_rank;
    Scratch scratch(*this);
    const Tensor row = scratch.take(batch.rows, z.cols);
    const Tensor matrix = scratch.take(batch.rows, rank * rank);
    const Tensor low = scratch.take(batch.rows, rank);
    const Tensor turned = scratch.take(batch.rows, rank);
    cpu::embed(pool_, batch, embedding, row);
    linear(row, ffn.s_emb_x, matrix);
    linear(z, ffn.s1, low);
    cpu::turn_by_token(pool_, batch, ffn, matrix, low, turned);
    linear(turned, ffn.s2, scale);
    cpu::add_bias(pool_, scale, ffn.s0);
  }

  void gather_wanted(const Batch& batch, Tensor x, Tensor out) override {
    cpu::gather_rows(pool_, x, batch.wanted_row, out);
  }

  void sample(Tensor logits, std::span<const SampleRow> rows, std::span<SampledToken> out) override {
    FULMAR_CHECK(rows.size() == out.size());
    pool_.parallel_for(static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
      std::vector<float> row(static_cast<size_t>(logits.cols));
      for (int64_t i = begin; i < end; i++) {
        std::memcpy(row.data(), logits.row<float>(rows[i].logits_row), row.size() * sizeof(float));
        out[i] = sample_row(row, rows[i]);
      }
    });
  }

 private:
  static std::byte* slot_at(const State& state, int64_t slot) {
    FULMAR_CHECK(slot >= 0 && slot < state.slots);
    return state.base + static_cast<size_t>(slot) * state.layout.slot_bytes();
  }

  static void convert_strided(const HostMatrix& from, float* to) {
    for (int64_t i = 0; i < from.rows; i++) {
      for (int64_t j = 0; j < from.cols; j++) {
        const auto index = static_cast<size_t>(i * from.row_stride + j * from.col_stride);
        to_f32(from.dtype, from.data + index * size_of(from.dtype), {to + i * from.cols + j, 1});
      }
    }
  }

  ThreadPool pool_;
  std::vector<Buffer> owned_;  // weights that could not be borrowed
  std::vector<int32_t> token_, start_, slot_, wanted_, sequence_of_;
};

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options) { return std::make_unique<CpuOps>(options); }

}  // namespace fulmar
