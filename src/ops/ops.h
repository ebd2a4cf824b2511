// One device: its facts, memory, steps, slots and links to others, the primitives that blocks of any version
// are made of, the head and the draws. What a version's blocks need beside these, primitives of their own and
// islands, is in its room (rwkv7/islands.h, rwkv6/islands.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ops/args.h"
#include "ops/batch.h"
#include "ops/ceilings.h"
#include "ops/channel.h"
#include "ops/collective.h"
#include "ops/sampling.h"
#include "ops/shared_draws.h"
#include "ops/state.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace fulmar {

class Islands7;
class Islands6;

// Facts of a device by which callers choose sizes.
struct DeviceTraits {
  std::string kind;                 // equal for devices that compute alike and equally fast
  std::optional<int> gpu;           // its index in list_gpus; nothing: no GPU
  bool own_memory = false;          // the device's free memory is this program's alone
  bool half_states = false;         // can store recurrent states in f16
  int64_t suitable_rows = 256;      // of a step: enough to be bound by arithmetic, not by memory
  int64_t suitable_sequences = 64;  // that a step can usefully carry
};

// The sizes of a model and its largest step, by which working memory is computed.
struct StepShape {
  int64_t rows = 0;       // of one step
  int64_t wanted = 0;     // rows whose logits are wanted
  int64_t n_embd = 0;     // C
  int64_t n_ffn = 0;      // F
  int64_t vocab = 0;      // V
  int64_t low_ranks = 0;  // sum over all low-rank paths of a block
  int64_t deep_rank = 0;  // D of RWKV-7a
};

// One device and everything that runs on it. All methods are called from one thread.
class Ops {
 public:
  virtual ~Ops() = default;

  // ---- facts

  virtual std::string name() const = 0;        // "cpu (AVX-512, 2 threads)", "cuda:0 (NVIDIA H200)"
  virtual DType activation_dtype() const = 0;  // of every [rows, ...] tensor but the residual stream
  virtual DType residual_dtype() const { return DType::f32; }
  virtual DType shift_dtype() const { return DType::f32; }
  virtual DType wkv_dtype() const { return DType::f32; }  // as stored between steps
  virtual DeviceTraits traits() const { return {}; }
  virtual StateWrites state_writes() const { return {}; }  // as the backend was opened
  // Returns whether rings are replayed on heads of this size; if not, every step writes its states.
  virtual bool replays(int64_t head_size) const { return head_size > 0; }
  // Returns batch sizes up to `most` to run once at start: the first step of each (and of the sizes below it)
  // is slow, because GEMM algorithms are timed and graphs captured.
  virtual std::vector<int64_t> rows_to_warm(int64_t /*most*/) const { return {}; }
  // Returns the padded batch size of a decode step of `rows` rows (graphs exist for some sizes only).
  virtual int64_t padded_rows(int64_t rows) const { return rows; }
  // Returns whether steps may have deltas (StepInput::deltas).
  virtual bool takes_deltas() const { return false; }
  // Returns whether calls return before the steps that they begin have run.
  virtual bool asynchronous() const { return false; }
  virtual size_t memory_free() const = 0;  // bytes that can still be allocated
  // Measures what the device reaches at best; empty where the backend has no measurement.
  virtual Result<Ceilings> measure_ceilings() { return Ceilings{}; }

  // ---- memory

  virtual Result<Buffer> allocate(size_t bytes) = 0;  // 64-byte aligned, contents undefined
  virtual void write(void* target, const void* host, size_t bytes) = 0;  // host -> backend
  // Copies backend -> host, once pending work is done.
  virtual void read(void* host, const void* source, size_t bytes) = 0;
  virtual void synchronise() = 0;
  // Returns an upper bound, in bytes, of the scratch memory that one island of a step, or the draws after it,
  // use at once. The default is that of the default islands.
  virtual size_t workspace_bytes(const StepShape& shape) const;
  // Reserves scratch memory, so that no step has to allocate. Called when a model is loaded.
  Status reserve_scratch(size_t bytes);

  // Scratch memory of islands: an arena that grows to the largest island and is reused by the next one.
  class Scratch {
   public:
    explicit Scratch(Ops& ops) : ops_(ops) {}
    ~Scratch() { ops_.scratch_used_ = mark_; }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    Tensor take(int64_t rows, int64_t cols, DType dtype);
    Tensor take(int64_t rows, int64_t cols) { return take(rows, cols, ops_.activation_dtype()); }

   private:
    Ops& ops_;
    size_t mark_ = ops_.scratch_used_;
  };

  // Returns the bytes of backend memory that import_weight will allocate for a matrix; 0: the weight will
  // point to the matrix in place, which then has to stay.
  virtual size_t import_bytes(const HostMatrix& matrix, WeightRole role) const = 0;
  // Converts a matrix to the form that this backend computes with.
  virtual Result<Weight> import_weight(const HostMatrix& matrix, WeightRole role) = 0;
  // Returns memory of the device from which its kernels read a set of deltas; empty where they do not need
  // any. Fails (unsupported) for a kind of change that the device does not compute.
  virtual Result<Buffer> index_deltas(const DeltaSet& deltas) {
    (void)deltas;
    return Buffer();
  }
  // Copies numbers into an f32 matrix [rows, cols].
  virtual Result<Tensor> import_vector(std::span<const float> values, int64_t rows, int64_t cols) = 0;
  // Checks a layer of a model `width` wide after its weights are imported; fails where the backend cannot
  // compute with them.
  virtual Status check_layer(int64_t width) {
    (void)width;
    return {};
  }

  // ---- the islands of each version, as this device computes them

  virtual Islands7& rwkv7() = 0;
  virtual Islands6& rwkv6() = 0;

  // ---- steps

  // Copies the input into backend memory; the Batch is valid until the next begin_step.
  virtual Batch begin_step(const StepInput& input, const State& state) = 0;
  // Runs the body, or replays what was captured of an earlier run with an equal batch shape.
  virtual void run_step(const Batch& batch, const std::function<void()>& body) {
    (void)batch;
    body();
  }

  // ---- slots
  //
  // All slots of `state` are in this device's memory; indices are 0 <= slot < state.slots. Calls take effect
  // in order, after the steps begun before them.

  virtual void zero_slot(const State& state, int64_t slot) = 0;
  virtual void copy_slot(const State& state, int64_t from, int64_t to) = 0;
  // Copies a slot to host memory of state.layout.slot_bytes(), once pending work is done, with the ring's
  // pending rows replayed; the slot itself does not change.
  virtual void read_slot(const State& state, int64_t slot, std::span<std::byte> out);
  // Copies host memory of state.layout.slot_bytes() to a slot.
  virtual void write_slot(const State& state, int64_t slot, std::span<const std::byte> from);
  // Undoes the slot's last `rows` rows. Only rows that its last step fed as revocable can be undone, never
  // the first of them. Copies no state.
  void roll_back(const State& state, int64_t slot, int64_t rows);

  // ---- other devices

  // Opens a device-to-device channel from `sender` to this device, for messages of up to `bytes` bytes; null
  // where they can only go through host memory.
  virtual Result<std::unique_ptr<Channel>> channel_from(Ops& sender, size_t bytes) {
    (void)sender, (void)bytes;
    return std::unique_ptr<Channel>();
  }
  // Opens device-to-device collectives, one end per rank (this device is rank 0); empty where they can only
  // go through host memory.
  virtual Result<std::vector<std::unique_ptr<Collective>>> collectives_of(std::span<Ops* const> group,
                                                                          const CollectiveOptions& options) {
    (void)group, (void)options;
    return std::vector<std::unique_ptr<Collective>>();
  }
  // Opens draws by such a group from a vocabulary of `vocab` ids; null where this device has no access to the
  // other ranks' logits. A rank that waits for another longer than the time-out throws DeviceFailure, naming
  // it.
  virtual Result<std::unique_ptr<SharedDraws>> draws_of(std::span<Ops* const> group, int64_t vocab,
                                                        std::chrono::milliseconds timeout) {
    (void)group, (void)vocab, (void)timeout;
    return std::unique_ptr<SharedDraws>();
  }
  // Returns the bytes of this device's memory that its end of such a group occupies.
  virtual size_t collective_bytes(int64_t size, const CollectiveOptions& options) const {
    (void)size, (void)options;
    return 0;
  }

  // ---- primitives
  //
  // Tensors are [rows, C] in the activation type unless said otherwise; outputs never overlap inputs unless
  // the comment says so. Sums and norms accumulate in f32.

  // Computes out = layer_norm(table[token]), or table[token] without ln0; `out` in the residual type
  virtual void embed(const Batch& batch, const Embedding& embedding, Tensor out) = 0;
  // Computes x += pending, in place; x in the residual type
  virtual void add(Tensor x, Tensor pending) = 0;
  // Adds the addend, all-reduced where several ranks have one.
  void absorb(Tensor x, const Addend& pending);
  // Computes out = layer_norm(x) with eps kLayerNormEps; x in the residual type
  virtual void norm(Tensor x, const Norm& norm, Tensor out) = 0;
  // Computes out[t] = z[t-1] within each sequence, the carried vector at its first row; carry <- the last row
  // of z
  virtual void shift(const Batch& batch, Tensor z, StateField carry, Tensor out) = 0;
  // Computes out = z + (other - z) * mix; mix is f32 [1, C] or activation [rows, C]; `out` may be z or other
  virtual void lerp(Tensor z, Tensor other, Tensor mix, Tensor out) = 0;
  // Computes out = z + (other - z) * (mix + delta); mix f32 [1, C], delta [rows, C]
  virtual void lerp_shifted(Tensor z, Tensor other, Tensor mix, Tensor delta, Tensor out) = 0;
  // Computes out = in @ weight^T; in [rows, weight.in], out [rows, weight.out]; `out` may be f32 (logits)
  virtual void linear(Tensor in, const Weight& weight, Tensor out) = 0;
  // Computes x = act(x + bias), in place; an empty bias counts as zero
  virtual void activate(Tensor x, Tensor bias, Activation act) = 0;
  // Computes x += bias, in place; bias f32 [1, C]
  virtual void add_bias(Tensor x, Tensor bias) = 0;
  // Computes out = a * b; `out` may be a
  virtual void multiply(Tensor a, Tensor b, Tensor out) = 0;
  // Computes y = group norm of y over each head's channels (eps kHeadNormEps), scaled and shifted, in place
  virtual void head_norm(int64_t n_head, const Norm& ln_x, Tensor y) = 0;
  // Copies out[i] = x[wanted_row[i]]
  virtual void gather_wanted(const Batch& batch, Tensor x, Tensor out) = 0;

  // ---- the head and the draws

  // Computes x += pending; hidden = norm(wanted rows of x) [wanted, C]; logits = hidden @ head^T, f32
  // [wanted, V]
  virtual void read_out(const Batch& batch, const Head& head, Tensor x, Addend pending, Tensor hidden,
                        Tensor logits);

  // Draws one token per row from f32 logits, or scores the one that the row gives. The default copies the
  // logits to the host and calls sample_row.
  virtual void sample(Tensor logits, std::span<const SampleRow> rows, std::span<SampledToken> out);
  // Enqueues the draws of sample() and returns; finish_sample waits for them and returns the tokens. No other
  // draws may come in between. Returns false, having done nothing, where sample() has to be called.
  virtual bool begin_sample(Tensor logits, std::span<const SampleRow> rows);
  virtual void finish_sample(std::span<SampledToken> out);
  // Returns the memory that the draws begun last write their ids to, for the StepInput::drawn of a step that
  // begins before the next draws, on devices of the same kind.
  virtual const void* drawn() const { return &drawn_; }

 protected:
  // Returns the address of a state as read_slot returns it: the slot itself where its ring holds nothing,
  // else a copy in scratch memory with the ring's rows replayed.
  virtual const std::byte* replayed(const State& state, int64_t slot, Scratch& scratch) = 0;
  // Restores the fields that a ring holds copies of, in every layer, from row `ring_row` of the ring.
  virtual void restore_fields(const State& state, int64_t slot, int64_t ring_row) = 0;
  // Returns the ring cursor of a slot; null where there are no rings.
  static RingCursor* cursor_of(const State& state, int64_t slot);

  // The memory behind drawn() where begin_sample is the default one.
  using Drawn = std::vector<SampledToken>;

 private:
  Drawn drawn_;
  std::vector<Buffer> scratch_;  // blocks are never moved: a captured graph may hold their addresses
  size_t scratch_used_ = 0;
};

}  // namespace fulmar
