// A loaded model on one device or several, whatever its RWKV version: the interface for the engine, the
// benchmarks and the tools.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/checkpoint.h"
#include "files/model_config.h"
#include "model/memory_plan.h"
#include "model/stage.h"
#include "model/state_pool.h"
#include "ops/ops.h"
#include "ops/shared_draws.h"
#include "ranks/errands.h"
#include "ranks/rank.h"

namespace fulmar {

class Model;

// A step's outputs, on the device that computes the logits or the first of several.
class StepOutputs {
 public:
  Ops& ops() const;
  Tensor hidden() const;  // [wanted, C] after the last norm, in the activation type
  Tensor logits() const;  // f32 [wanted, V]; gathered from all slices, once
  // Draws as Ops::sample does, from the slices' logits in place or, if they were gathered, from those.
  void sample(std::span<const SampleRow> rows, std::span<SampledToken> out) const;

 private:
  friend class Model;
  StepOutputs(Model& model, int64_t wanted) : model_(model), wanted_(wanted) {}

  Model& model_;
  const int64_t wanted_;
  mutable bool gathered_ = false;
};

class Model {
 public:
  // Loads a model onto one device. The checkpoint has official names and orientation; it lives as long as the
  // model, which may borrow from it. Fails for missing and misshapen tensors, naming tensor, found and wanted
  // shape.
  static Result<std::unique_ptr<Model>> load(std::unique_ptr<Checkpoint> checkpoint, Ops& ops,
                                             const LoadOptions& options);
  // Loads a model as a pipeline of stages that together are all layers in order, the slices of a stage one
  // after the other. All devices use the same types of numbers and states. Each is driven by a thread of its
  // own, except that with a single stage the caller's thread drives the first device.
  static Result<std::unique_ptr<Model>> load(std::unique_ptr<Checkpoint> checkpoint,
                                             std::span<const Placed> stages, const LoadOptions& options);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // ---- facts

  const ModelConfig& config() const { return config_; }
  std::span<const StagePlan> plan() const { return plan_; }
  MemoryPlan memory() const;  // sum over all devices
  int64_t max_rows() const { return max_rows_; }
  int64_t max_wanted() const { return max_wanted_; }
  StateLayout state_layout() const { return state_layout_of(config_, stages_.front()->rank().ops()); }
  StateWrites state_writes() const { return stages_.front()->rank().ops().state_writes(); }
  // Returns a hash, in hex, of the shape and a sample of the weights: equal for equal weights, from whatever
  // file and on whatever devices.
  const std::string& fingerprint() const { return fingerprint_; }
  bool spread() const { return ranks_.size() > 1; }  // over several devices
  std::string device() const;                        // names of the devices
  size_t memory_free() const;                        // sum over all devices, each counted once
  bool asynchronous() const;                         // begin() returns before the step has run
  int64_t pipeline_stages() const { return static_cast<int64_t>(stages_.size()) / slices(); }
  // Returns the batch sizes whose first step is slow (Ops::rows_to_warm).
  std::vector<int64_t> rows_to_warm() const { return stages_.front()->rank().ops().rows_to_warm(max_rows_); }
  int64_t padded_rows(int64_t rows) const { return stages_.front()->rank().ops().padded_rows(rows); }
  // Returns the number of steps, of different rows, that should be under way at once to keep every stage
  // busy.
  int64_t steps_under_way() const { return steps_under_way_; }

  // Makes the states of `slots` sequences. `layout` is state_layout(),
  // perhaps with another type of the wkv states; `writes` defaults to
  // how the devices were opened.
  Result<StatePool> make_states(int64_t slots) { return make_states(state_layout(), slots, state_writes()); }
  Result<StatePool> make_states(const StateLayout& layout, int64_t slots, const StateWrites& writes);
  // Returns how many states fit into this share of every device's free memory.
  int64_t states_that_fit(double share) const;

  // ---- adapters

  // Copies changes of matrices to the devices, for StepInput::deltas of this model's steps. Fails, keeping
  // nothing, where one names a matrix that the model lacks, does not fit it, or cannot be computed beside it.
  Result<std::unique_ptr<DeviceAdapter>> load_adapter(std::span<const HostDelta> deltas);

  // ---- steps: packed rows, at most max_rows; the states of their slots are updated in place
  // Begins a step. `take`, if any, is called with its outputs before the next
  // step overwrites them, at the latest within finish(). A sequence may not
  // have rows in two steps under way.
  using TakeOutputs = std::function<void(const StepOutputs&)>;
  void begin(const StepInput& input, const StatePool& states, TakeOutputs take);
  // Begins the draws from the logits of the step begun last, instead of taking its outputs; does not wait:
  // that step's finish() fills `out`. Until the next draws a step may name the drawn tokens as its input
  // (StepInput::drawn is set here). No other draws may be under way. Returns false, having done nothing,
  // where outputs have to be taken.
  bool begin_draws(std::span<const SampleRow> rows, std::span<SampledToken> out);
  // Returns whether begin_draws may return true: the devices draw where they compute, so a next step can
  // follow.
  bool draws_ahead() const { return led(); }
  // Waits for the oldest step that was begun, and takes its outputs.
  void finish();
  size_t under_way() const { return begun_.size(); }
  // Drops the steps under way: no more outputs are taken.
  void abandon();

  // Runs one step; returns its logits, f32 [wanted, V], in memory of the device that computes them, valid
  // until the next step; empty when nothing is wanted.
  Tensor forward(const StepInput& input, const StatePool& states);
  Tensor hidden();  // [wanted, C] of the last forward
  // Copies from memory of the device that computes the logits, after all steps.
  void read(void* host, const void* source, size_t bytes);
  void synchronise();  // waits for everything that was begun

 private:
  struct Begun {
    int64_t wanted;
    TakeOutputs take;        // if outputs are taken on the caller's thread
    std::future<void> over;  // if they are taken on a rank's
    bool concluded = false;  // whether a led step's outputs were taken
    // What the draws that were begun will fill.
    std::optional<std::span<SampledToken>> drawn = {};
  };

  explicit Model(const ModelConfig& config) : config_(config) {}
  Status load_stages(std::span<const Placed> placed, const LoadOptions& options);
  Status connect(size_t message_bytes, const CollectiveOptions& together);
  Status connect_stages(size_t message_bytes);
  Status connect_slices(const CollectiveOptions& together);
  // Returns whether the caller's thread drives the first rank: no pipeline. Then no thread has to wake up
  // between the draws of one step and the beginning of the next.
  bool led() const { return !ranks_.front()->threaded(); }
  int64_t slices() const { return stages_.front()->slice().count; }
  // Returns the index of the last layers' first slice, which leads the others when outputs are taken.
  size_t output_stage() const { return stages_.size() - static_cast<size_t>(slices()); }
  Stage& last() const { return *stages_[output_stage()]; }
  bool sliced() const { return slices() > 1; }
  // Makes the stage's other ranks do this work after their part of a step; on the leading rank's thread.
  void run_on_other_ranks(const Errands::Work& work);
  void gather_logits(int64_t wanted);
  bool shares_draws(std::span<const SampleRow> rows) const;
  void begin_shared(int64_t wanted, std::span<const SampleRow> rows);
  friend class StepOutputs;
  std::future<void> post(const StepInput& input, const StatePool& states, TakeOutputs take);
  void take_outputs(int64_t wanted, const TakeOutputs& take);
  void conclude(Begun& step);
  void finish_draws(std::span<SampledToken> out);
  void throw_failure() const;

  ModelConfig config_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::string fingerprint_;
  std::vector<StagePlan> plan_;
  int64_t max_rows_ = 0;
  int64_t max_wanted_ = 0;
  int64_t steps_under_way_ = 1;
  int64_t wanted_ = 0;  // of the last forward
  std::deque<Begun> begun_;
  std::vector<std::unique_ptr<Channel>> channels_;  // [i] leads from stage i to the next layers' slice
  std::vector<std::unique_ptr<Collective>>
      collectives_;                             // the i-th is the end of stage i; none without slices
  std::unique_ptr<Errands> errands_;            // of the last layers' slices in a pipeline; null otherwise
  std::unique_ptr<SharedDraws> draws_;          // null: draws are from gathered logits
  std::vector<std::unique_ptr<Stage>> stages_;  // each on the rank of its number
  std::vector<std::unique_ptr<Rank>> ranks_;    // destroyed first
};

}  // namespace fulmar
