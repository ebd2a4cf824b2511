// What a backend can do: primitives that each must write, and islands that each may override.
//
// An island is one fused stage of a block. Its default body (islands.cpp) composes primitives and is the
// specification; an override is an optimisation of it and is tested against it. Islands are cut at the
// residual add: each that reads the residual stream first absorbs the pending addend, so every useful fusion
// lies inside one. Shape, architecture and weight kind are decided inside an island or primitive, never in
// the model files.
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

enum class Activation : uint8_t { tanh, sigmoid, silu, relu_squared };

// What a caller may want to know of a device to choose sizes.
struct DeviceTraits {
  std::string kind;                 // equal for devices that compute alike and equally fast
  std::optional<int> gpu;           // its index in list_gpus; nothing: no GPU
  bool own_memory = false;          // nobody but this program needs what is free of its memory
  bool half_states = false;         // can keep recurrent states in f16
  int64_t suitable_rows = 256;      // of one step: enough to be bound by arithmetic and not by memory
  int64_t suitable_sequences = 64;  // that one step can usefully carry
};

// The sizes of a model and its largest step, as far as working memory depends on them.
struct StepShape {
  int64_t rows = 0;       // of one step
  int64_t wanted = 0;     // rows whose logits are wanted
  int64_t n_embd = 0;     // C
  int64_t n_ffn = 0;      // F
  int64_t vocab = 0;      // V
  int64_t low_ranks = 0;  // of all low-rank paths of a block together
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
  virtual DType wkv_dtype() const { return DType::f32; }  // as states are kept between steps
  virtual DeviceTraits traits() const { return {}; }
  virtual StateWrites state_writes() const { return {}; }  // as the backend was opened
  // Whether rings are replayed on heads of so many channels; where not, every step writes its states.
  virtual bool replays(int64_t head_size) const { return head_size > 0; }
  // Numbers of rows up to `most` that a step should have had before somebody waits for it: the first step of
  // each, and of the numbers between it and the one before, takes longer than later ones.
  virtual std::vector<int64_t> rows_to_warm(int64_t /*most*/) const { return {}; }
  // As many rows as a step of so many sequences with one row each takes the time of: batches are padded.
  virtual int64_t padded_rows(int64_t rows) const { return rows; }
  virtual bool asynchronous() const { return false; }  // true: steps run on after the calls that begin them
  virtual size_t memory_free() const = 0;              // bytes that allocations may still take
  // What the device reaches at best, measured now; nothing where a backend has no measure of its own.
  virtual Result<Ceilings> measure_ceilings() { return Ceilings{}; }

  // ---- memory
  virtual Result<Buffer> allocate(size_t bytes) = 0;  // 64-byte aligned, contents undefined
  virtual void write(void* target, const void* host, size_t bytes) = 0;  // host -> backend
  virtual void read(void* host, const void* source,
                    size_t bytes) = 0;  // backend -> host, waits for pending work
  virtual void synchronise() = 0;
  // Upper bound of the temporaries that any island of a step, or the draws behind it, take at once: bytes.
  // The default is that of the default islands.
  virtual size_t workspace_bytes(const StepShape& shape) const;
  // Sets so much aside for temporaries, so that no step has to allocate. Called when a model is loaded.
  Status reserve_scratch(size_t bytes);

  // Bytes of backend memory that import_weight takes for such a matrix; 0: the weight points to where the
  // matrix lies, which then has to stay.
  virtual size_t import_bytes(const HostMatrix& matrix, WeightRole role) const = 0;
  // Takes a matrix into the form this backend computes with.
  virtual Result<Weight> import_weight(const HostMatrix& matrix, WeightRole role) = 0;
  // Takes numbers as an f32 matrix [rows, cols].
  virtual Result<Tensor> import_vector(std::span<const float> values, int64_t rows, int64_t cols) = 0;
  // Called once per layer after its weights are imported, so that a backend may join or rearrange them.
  virtual Status finish_layer(TimeMix7&, ChannelMix7&) { return {}; }
  virtual Status finish_layer(TimeMix6&, ChannelMix6&) { return {}; }

  // ---- steps
  // Brings the input into backend memory; the Batch stays valid until the next begin_step.
  virtual Batch begin_step(const StepInput& input, const State& state) = 0;
  // Runs the body, or replays what an earlier run with an equal batch shape recorded of it.
  virtual void run_step(const Batch& batch, const std::function<void()>& body) {
    (void)batch;
    body();
  }

  // ---- slots
  // All slots of `state` lie in this device's memory; indices are 0 <= slot < state.slots. Calls take effect
  // in their order, behind the steps begun before them.
  virtual void zero_slot(const State& state, int64_t slot) = 0;
  virtual void copy_slot(const State& state, int64_t from, int64_t to) = 0;
  // To and from host memory of state.layout.slot_bytes(), by read and write; read_slot waits for pending
  // work, and gives the state with what its ring holds, without a change to the slot.
  virtual void read_slot(const State& state, int64_t slot, std::span<std::byte> out);
  virtual void write_slot(const State& state, int64_t slot, std::span<const std::byte> from);
  // Rolls the last rows of a slot back, so that its state is the one in front of them: at most those that its
  // last step fed as revocable but the first. Copies no state.
  void roll_back(const State& state, int64_t slot, int64_t rows);

  // ---- other devices
  // A channel from `sender` to this device that keeps off host memory, for messages of so many bytes; null
  // where the two have no such way.
  virtual Result<std::unique_ptr<Channel>> channel_from(Ops& sender, size_t bytes) {
    (void)sender, (void)bytes;
    return std::unique_ptr<Channel>();
  }
  // The ends of a group of ranks, this device being the first of them, that keep off host memory; none where
  // the devices have no such way.
  virtual Result<std::vector<std::unique_ptr<Collective>>> collectives_of(std::span<Ops* const> group,
                                                                          const CollectiveOptions& options) {
    (void)group, (void)options;
    return std::vector<std::unique_ptr<Collective>>();
  }
  // Draws of such a group from V ids; null where this device does not reach the others' logits. A rank that
  // waits for another one longer than the time-out throws DeviceFailure, naming it.
  virtual Result<std::unique_ptr<SharedDraws>> draws_of(std::span<Ops* const> group, int64_t vocab,
                                                        std::chrono::milliseconds timeout) {
    (void)group, (void)vocab, (void)timeout;
    return std::unique_ptr<SharedDraws>();
  }
  // Bytes of this device's memory that its end of such a group takes.
  virtual size_t collective_bytes(int64_t size, const CollectiveOptions& options) const {
    (void)size, (void)options;
    return 0;
  }

  // ---- primitives
  //
  // Tensors are [rows, C] in the activation type unless said otherwise; outputs never overlap inputs unless
  // the comment says so. Sums and norms accumulate in f32.

  // out = layer_norm(table[token]), or table[token] without ln0; `out` in the residual type
  virtual void embed(const Batch& batch, const Embedding& embedding, Tensor out) = 0;
  // x += pending, in place; x in the residual type
  virtual void add(Tensor x, Tensor pending) = 0;
  // The same, or of several ranks the sum of their addends.
  void absorb(Tensor x, const Addend& pending);
  // out = layer_norm(x) with eps kLayerNormEps; x in the residual type
  virtual void norm(Tensor x, const Norm& norm, Tensor out) = 0;
  // out[t] = z[t-1] within each sequence, and the carried vector at its first row; carry <- the last row of z
  virtual void shift(const Batch& batch, Tensor z, StateField carry, Tensor out) = 0;
  // out = z + (other - z) * mix; mix is f32 [1, C] or activation [rows, C]; `out` may be z or other
  virtual void lerp(Tensor z, Tensor other, Tensor mix, Tensor out) = 0;
  // out = z + (other - z) * (mix + delta); mix f32 [1, C], delta [rows, C]
  virtual void lerp_shifted(Tensor z, Tensor other, Tensor mix, Tensor delta, Tensor out) = 0;
  // out = in @ weight^T; in [rows, weight.in], out [rows, weight.out]; `out` may be f32 (logits)
  virtual void linear(Tensor in, const Weight& weight, Tensor out) = 0;
  // x = act(x + bias), in place; an empty bias counts as zero
  virtual void activate(Tensor x, Tensor bias, Activation act) = 0;
  // x += bias, in place; bias f32 [1, C]
  virtual void add_bias(Tensor x, Tensor bias) = 0;
  // out = a * b; `out` may be a
  virtual void multiply(Tensor a, Tensor b, Tensor out) = 0;
  // kk = k * k_k normalised per head (lower bound of the norm 1e-12); then k *= 1 + (alpha - 1) * k_a, in
  // place
  virtual void key_prepare7(const TimeMix7& att, Tensor k, Tensor alpha, Tensor kk) = 0;
  // RWKV-7 recurrence per head, rows of a sequence in order; state in place; y [rows, C]
  virtual void wkv7(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv,
                    Tensor y) = 0;
  // RWKV-6 recurrence per head (state value-major here too); y [rows, C]
  virtual void wkv6(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv,
                    Tensor y) = 0;
  // y = group norm over each head's channels (eps kHeadNormEps), scaled and shifted, in place
  virtual void head_norm(int64_t n_head, const Norm& ln_x, Tensor y) = 0;
  // y += (sum over the head of r * k * r_k) * v, in place
  virtual void bonus7(const TimeMix7& att, const Projected7& p, Tensor y) = 0;
  // RWKV-7a: scale [rows, F] = ((z @ s1^T) @ E) @ s2^T + s0, E[D, D] from the token's id and normed embedding
  virtual void deep_embed(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor z,
                          Tensor scale) = 0;
  // out[i] = x[wanted_row[i]]
  virtual void gather_wanted(const Batch& batch, Tensor x, Tensor out) = 0;

  // ---- islands
  //
  // x is the residual stream; `pending` is what the island before left to be added to it (empty: nothing).

  // x += pending; z = norm(x); mixed[i] = lerp(z, shifted z, mix row i) for r w k v a g
  virtual void enter7(const Batch& batch, const TimeMix7& att, Tensor x, Addend pending, StateField att_shift,
                      std::span<const Tensor, 6> mixed);
  // The projections, low-rank paths, value residual and key preparation. In block 0 v_first <- v.
  virtual void project7(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                        bool first_block, Tensor v_first, const Projected7& p);
  virtual void recur7(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv, Tensor y);
  // pending = ((head_norm(y) + bonus) * g) @ output^T; y is used up
  virtual void leave7(const Batch& batch, const TimeMix7& att, const Projected7& p, Tensor y, Tensor pending);
  // recur7, then leave7; y [rows, C] is working memory. For backends that keep y in registers.
  virtual void attend7(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv, Tensor y,
                       Tensor pending);
  // project7, then attend7; p and y are working memory. For backends that keep part of p in registers.
  virtual void time_mix7(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                         bool first_block, Tensor v_first, const Projected7& p, StateField wkv, Tensor y,
                         Tensor pending);
  // x += addend; pending = relu²(lerp(z) @ key^T) [* deep embed] @ value^T. `pending` may lie where `addend`
  // does, unless ranks have addends, and `addend` may be empty.
  virtual void channel_mix7(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor x,
                            Addend addend, StateField ffn_shift, Tensor pending);

  // A whole block at once, where the backend has a shorter way for such a batch: enter7, time_mix7 and
  // channel_mix7 with nothing pending before and all added to x behind. False: not done, the islands are to
  // be run.
  virtual bool block7(const Batch& batch, const Block7& block, Tensor x, const Block7Work& work,
                      const Block7State& state) {
    (void)batch, (void)block, (void)x, (void)work, (void)state;
    return false;
  }

  // x += pending; data-dependent mixes in the order w k v r g
  virtual void enter6(const Batch& batch, const TimeMix6& att, Tensor x, Addend pending, StateField att_shift,
                      std::span<const Tensor, 5> mixed);
  virtual void project6(const Batch& batch, const TimeMix6& att, std::span<const Tensor, 5> mixed,
                        const Projected6& p);
  virtual void recur6(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv, Tensor y);
  // pending = (head_norm(y) * g) @ output^T; y is used up
  virtual void leave6(const Batch& batch, const TimeMix6& att, const Projected6& p, Tensor y, Tensor pending);
  // recur6, then leave6, as attend7
  virtual void attend6(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv, Tensor y,
                       Tensor pending);
  virtual void channel_mix6(const Batch& batch, const ChannelMix6& ffn, Tensor x, Addend addend,
                            StateField ffn_shift, Tensor pending);

  // x += pending; hidden = norm(wanted rows of x) [wanted, C]; logits = hidden @ head^T, f32 [wanted, V]
  virtual void read_out(const Batch& batch, const Head& head, Tensor x, Addend pending, Tensor hidden,
                        Tensor logits);

  // Draws one token per row from f32 logits, or scores the one that the row gives. The default reads the
  // logits back and calls sample_row.
  virtual void sample(Tensor logits, std::span<const SampleRow> rows, std::span<SampledToken> out);
  // The same in two halves: the first begins the draws and does not wait for them; the second waits and gives
  // the tokens. Nothing else is drawn in between. False, and nothing is begun, where sample() has to do it.
  virtual bool begin_sample(Tensor logits, std::span<const SampleRow> rows);
  virtual void finish_sample(std::span<SampledToken> out);
  // Where the draws begun last put their ids, for StepInput::drawn on devices of the same kind: those of a
  // step that begins before the next draws.
  virtual const void* drawn() const { return &drawn_; }

 protected:
  // Temporaries of default islands: an arena that grows to the largest island and is reused by the next one.
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

  // Where a state lies that is as read_slot gives it: the slot itself where its ring holds nothing, else a
  // copy in scratch with the rows of the ring replayed.
  virtual const std::byte* replayed(const State& state, int64_t slot, Scratch& scratch) = 0;
  // Brings back both carried vectors of each layer as they were behind such a row of the ring.
  virtual void restore_shifts(const State& state, int64_t slot, int64_t ring_row) = 0;
  // The cursor of a slot with a ring; null where there are none.
  static RingCursor* cursor_of(const State& state, int64_t slot);

  // What `drawn` of a step is where begin_sample is the default one.
  using Drawn = std::vector<SampledToken>;

 private:
  Drawn drawn_;
  std::vector<Buffer> scratch_;  // blocks are never moved: a captured graph may point into them
  size_t scratch_used_ = 0;
};

}  // namespace fulmar
