#include "model/model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "files/identify.h"
#include "model/nonfinite.h"
#include "ops/device.h"
#include "ops/sampling_mode.h"
#include "ranks/host_channel.h"
#include "ranks/host_collective.h"

namespace fulmar {

namespace {

Status check_finite(const Checkpoint& checkpoint) {
  const auto found = first_nonfinite(checkpoint);
  if (!found) return {};
  return Error{ErrorKind::corrupt, "tensor '" + found->tensor + "' holds " + std::string(found->what) +
                                       " at element " + std::to_string(found->index)};
}

std::string layers_text(const LayerRange& layers) {
  return "[" + std::to_string(layers.first) + ", " + std::to_string(layers.last) + ")";
}

std::string slice_text(const Placed& stage) {
  return "slice " + std::to_string(stage.slice.index + 1) + " of " + std::to_string(stage.slice.count) +
         " of layers " + layers_text(stage.layers);
}

// Checks that all slices of some layers come in order, before the next layers.
Status check_slice_order(std::span<const Placed> stages) {
  const int64_t count = stages.front().slice.count;
  for (size_t i = 0; i < stages.size(); i++) {
    const Slice wanted{static_cast<int64_t>(i) % count, count};
    const size_t first = i - static_cast<size_t>(wanted.index);
    if (stages[i].slice != wanted || stages[i].layers != stages[first].layers) {
      return Error{ErrorKind::invalid, "a stage holds " + slice_text(stages[i]) + "; wanted " +
                                           slice_text({nullptr, stages[first].layers, wanted})};
    }
    if (first + static_cast<size_t>(count) <= stages.size()) continue;
    return Error{ErrorKind::invalid,
                 "a stage holds " + slice_text(stages[i]) + ", and not all of them follow"};
  }
  return {};
}

// Checks that the stages are all layers in order, none empty, on devices with equal types of numbers.
Status check_stages(std::span<const Placed> stages, const ModelConfig& config) {
  int64_t next = 0;
  if (!stages.empty()) {
    FULMAR_TRY(check_slices(config, stages.front().slice.count));
    FULMAR_TRY(check_slice_order(stages));
  }
  for (const Placed& stage : stages) {
    if (stage.slice.index > 0) continue;
    if (stage.layers.first != next || stage.layers.count() < 1) {
      return Error{ErrorKind::invalid, "a stage holds layers " + layers_text(stage.layers) +
                                           "; wanted at least one, from " + std::to_string(next) + " on"};
    }
    next = stage.layers.last;
  }
  if (stages.empty() || next != config.n_layer) {
    return Error{ErrorKind::invalid, "the stages hold " + std::to_string(next) + " layers; the model has " +
                                         std::to_string(config.n_layer)};
  }
  const Ops& first = *stages.front().ops;
  for (const Placed& stage : stages) {
    const Ops& ops = *stage.ops;
    const bool alike = ops.activation_dtype() == first.activation_dtype() &&
                       ops.residual_dtype() == first.residual_dtype() &&
                       ops.shift_dtype() == first.shift_dtype() && ops.wkv_dtype() == first.wkv_dtype();
    if (alike) continue;
    return Error{ErrorKind::unsupported,
                 ops.name() + " computes in " + std::string(name_of(ops.activation_dtype())) +
                     " with states in " + std::string(name_of(ops.wkv_dtype())) + ", " + first.name() +
                     " in " + std::string(name_of(first.activation_dtype())) + " with " +
                     std::string(name_of(first.wkv_dtype())) + "; stages of one model want the same types"};
  }
  return {};
}

// A copy of a step's arrays, for ranks that run it later.
struct KeptInput {
  explicit KeptInput(const StepInput& input)
      : token(input.token.begin(), input.token.end()),
        start(input.start.begin(), input.start.end()),
        slot(input.slot.begin(), input.slot.end()),
        wanted(input.wanted.begin(), input.wanted.end()),
        revocable(input.revocable.begin(), input.revocable.end()),
        drawn(input.drawn),
        deltas(input.deltas.begin(), input.deltas.end()) {}
  StepInput view() const { return {token, start, slot, wanted, revocable, drawn, deltas}; }

  std::vector<int32_t> token, start, slot, wanted;
  std::vector<uint8_t> revocable;
  const void* drawn;
  std::vector<SequenceDeltas> deltas;
};

// Fulfils its promise when the last owner is destroyed, also where a rank drops its work.
struct Over {
  ~Over() { promise.set_value(); }
  std::promise<void> promise;
};

}  // namespace

// Waits for all devices first: one may still read another's buffers.
Model::~Model() {
  abandon();
  for (const auto& rank : ranks_) {
    try {
      rank->ops().synchronise();
    } catch (const DeviceFailure& failure) {
      spdlog::debug("{} ends with a step under way: {}", rank->ops().name(), failure.what());
    }
  }
}

Result<std::unique_ptr<Model>> Model::load(std::unique_ptr<Checkpoint> checkpoint, Ops& ops,
                                           const LoadOptions& options) {
  FULMAR_ASSIGN(const ModelConfig config, identify(*checkpoint));
  const Placed whole{&ops, {0, config.n_layer}};
  return load(std::move(checkpoint), {&whole, 1}, options);
}

Result<std::unique_ptr<Model>> Model::load(std::unique_ptr<Checkpoint> checkpoint,
                                           std::span<const Placed> stages, const LoadOptions& options) {
  FULMAR_TRY(check_options(options));
  FULMAR_ASSIGN(const ModelConfig config, identify(*checkpoint));
  FULMAR_TRY(check_stages(stages, config));
  std::unique_ptr<Model> model(new Model(config));
  FULMAR_ASSIGN(model->plan_, plan_stages(*checkpoint, config, stages, options));
  FULMAR_TRY(check_memory(model->plan_));
  if (!options.allow_nonfinite) FULMAR_TRY(check_finite(*checkpoint));
  model->checkpoint_ = std::move(checkpoint);
  FULMAR_TRY(model->load_stages(stages, options));
  const StepShape shape = step_shape(config, options);
  FULMAR_TRY(model->connect(stream_bytes(config, shape, *stages.front().ops),
                            collective_options(config, shape, options)));
  model->max_rows_ = options.max_rows;
  model->max_wanted_ = wanted_rows(options);
  if (model->spread()) {
    model->steps_under_way_ =
        options.steps_under_way > 0 ? options.steps_under_way : model->pipeline_stages();
  }
  return model;
}

Status Model::load_stages(std::span<const Placed> placed, const LoadOptions& options) {
  const auto report = [&](double fraction) {
    if (options.progress) options.progress(fraction);
  };
  report(0);
  Fingerprint fingerprint;
  fingerprint.add("rwkv" + std::to_string(config_.version));
  const Stage::Source source{
      *checkpoint_, config_, step_shape(config_, options), fingerprint,
      [&](int64_t l) { report(static_cast<double>(l) / static_cast<double>(config_.n_layer + 1)); }};
  const bool pipeline = placed.size() > static_cast<size_t>(placed.front().slice.count);
  for (const Placed& one : placed) {
    const bool leads = !pipeline && ranks_.empty();
    const auto drive = leads ? Rank::Drive::leader : Rank::Drive::thread;
    ranks_.push_back(std::make_unique<Rank>(*one.ops, drive));
    FULMAR_ASSIGN(auto stage, Stage::load(source, *ranks_.back(), one.layers, one.slice));
    stages_.push_back(std::move(stage));
  }
  fingerprint_ = fingerprint.hex();
  report(1);
  return {};
}

// Connects the stages. A stage that fails closes all channels and collectives, so that no other waits for it.
Status Model::connect(size_t message_bytes, const CollectiveOptions& together) {
  FULMAR_TRY(connect_stages(message_bytes));
  if (slices() > 1) FULMAR_TRY(connect_slices(together));
  for (const auto& rank : ranks_) {
    rank->on_failure([this](const std::string& reason) {
      for (const auto& channel : channels_) channel->close(reason);
      for (const auto& collective : collectives_) collective->close(reason);
      if (errands_) errands_->close(reason);
      if (draws_) draws_->close(reason);
    });
  }
  return {};
}

// Connects neighbouring stages by peer access where possible; a slice sends to the same slice of the next
// layers.
Status Model::connect_stages(size_t bytes) {
  bool alike = true;
  for (const auto& rank : ranks_)
    alike = alike && rank->ops().traits().kind == ranks_.front()->ops().traits().kind;
  const auto step = static_cast<size_t>(slices());
  for (size_t i = 0; i + step < stages_.size(); i++) {
    Ops& sender = ranks_[i]->ops();
    Ops& receiver = ranks_[i + step]->ops();
    FULMAR_ASSIGN(auto channel, receiver.channel_from(sender, bytes));
    if (!channel) {
      const bool apart = sender.traits().gpu || receiver.traits().gpu;
      if (apart) {
        spdlog::warn(
            "{} and {} cannot reach each other's memory: rows go through host memory, which is slower",
            sender.name(), receiver.name());
      }
      channel = make_host_channel(sender, receiver, bytes);
    }
    channels_.push_back(std::move(channel));
  }
  for (size_t i = 0; i < stages_.size(); i++) {
    stages_[i]->connect(i >= step ? channels_[i - step].get() : nullptr,
                        i < channels_.size() ? channels_[i].get() : nullptr, alike);
  }
  return {};
}

Status Model::connect_slices(const CollectiveOptions& together) {
  for (size_t first = 0; first < stages_.size(); first += static_cast<size_t>(slices())) {
    std::vector<Ops*> group;
    for (int64_t i = 0; i < slices(); i++) group.push_back(&ranks_[first + static_cast<size_t>(i)]->ops());
    CollectiveOptions options = together;
    options.gathered = stages_[first]->logits();
    FULMAR_ASSIGN(auto ends, group.front()->collectives_of(group, options));
    if (ends.empty()) {
      if (group.front()->traits().gpu) {
        spdlog::warn("the slices of layers {} to {} are added up through host memory, which is slower",
                     stages_[first]->layers().first, stages_[first]->layers().last - 1);
      }
      ends = make_host_collectives(group, options);
    }
    for (auto& end : ends) {
      stages_[collectives_.size()]->share_with(end.get());
      collectives_.push_back(std::move(end));
    }
    if (first != output_stage()) continue;
    if (!led()) errands_ = std::make_unique<Errands>(group.size() - 1);
    FULMAR_ASSIGN(draws_, group.front()->draws_of(group, config_.vocab, options.timeout));
  }
  return {};
}

Ops& StepOutputs::ops() const { return model_.last().rank().ops(); }

Tensor StepOutputs::hidden() const { return model_.last().hidden(wanted_); }

Tensor StepOutputs::logits() const {
  if (model_.sliced() && !gathered_ && wanted_ > 0) model_.gather_logits(wanted_);
  gathered_ = true;
  return model_.last().logits(wanted_);
}

void StepOutputs::sample(std::span<const SampleRow> rows, std::span<SampledToken> out) const {
  if (gathered_ || !model_.shares_draws(rows)) return ops().sample(logits(), rows, out);
  model_.begin_shared(wanted_, rows);
  model_.draws_->finish(out);
}

// Posts the work; only the caller posts to ranks that it leads, so nothing comes
// between a step and its errands.
void Model::run_on_other_ranks(const Errands::Work& work) {
  if (!led()) return errands_->ask(work);
  for (size_t i = 1; i < ranks_.size(); i++) ranks_[i]->post([work, i] { work(i); });
}

void Model::gather_logits(int64_t wanted) {
  run_on_other_ranks([this, wanted](size_t rank) { stages_[output_stage() + rank]->gather(wanted); });
  last().gather(wanted);
}

// Returns whether the ranks draw from surveys of their own slices. Draws that need many logits gather them
// once instead.
bool Model::shares_draws(std::span<const SampleRow> rows) const {
  return draws_ != nullptr && std::all_of(rows.begin(), rows.end(), survey_suffices);
}

// Begins draws on all ranks. The others get a copy of the rows: a draw that throws
// returns while they read them.
void Model::begin_shared(int64_t wanted, std::span<const SampleRow> rows) {
  const auto kept = std::make_shared<const std::vector<SampleRow>>(rows.begin(), rows.end());
  run_on_other_ranks([this, wanted, kept](size_t rank) {
    const Stage& stage = *stages_[output_stage() + rank];
    draws_->survey(rank, stage.part(wanted), stage.part_first(), *kept);
  });
  draws_->begin(last().part(wanted), rows);
}

MemoryPlan Model::memory() const {
  MemoryPlan sum{.slots = plan_.front().memory.slots};
  for (const StagePlan& stage : plan_) {
    sum.weights += stage.memory.weights;
    sum.workspace += stage.memory.workspace;
    sum.per_slot += stage.memory.per_slot;
  }
  return sum;
}

std::string Model::device() const {
  std::string names;
  for (const StagePlan& stage : plan_) {
    const char* joint = stage.slice.index > 0 ? " + " : " > ";
    names += (names.empty() ? "" : joint) + stage.device;
  }
  return names;
}

size_t Model::memory_free() const {
  size_t free = 0;
  for (size_t i = 0; i < plan_.size(); i++) {
    const auto same = [&](const StagePlan& other) { return other.gpu == plan_[i].gpu; };
    const auto before = plan_.begin() + static_cast<ptrdiff_t>(i);
    if (std::none_of(plan_.begin(), before, same)) free += ranks_[i]->ops().memory_free();
  }
  return free;
}

bool Model::asynchronous() const {
  const Rank& rank = last().rank();
  return rank.threaded() || rank.ops().asynchronous();
}

Result<StatePool> Model::make_states(const StateLayout& layout, int64_t slots, const StateWrites& writes) {
  std::vector<StatePool::Share> shares;
  for (const auto& stage : stages_)
    shares.push_back({&stage->rank(), stage->layers().count(), stage->slice()});
  return StatePool::make(shares, layout, slots,
                         ring_layout_of(config_, stages_.front()->rank().ops(), writes));
}

Result<std::unique_ptr<DeviceAdapter>> Model::load_adapter(std::span<const HostDelta> deltas) {
  for (const auto& rank : ranks_) {
    if (rank->ops().takes_deltas()) continue;
    return Error{ErrorKind::unsupported, rank->ops().name() + " computes no adapters beside a model"};
  }
  std::set<std::string_view> seen;
  for (const HostDelta& delta : deltas) {
    if (!seen.insert(delta.matrix).second) {
      return Error{ErrorKind::invalid, "the adapter changes '" + delta.matrix + "' twice"};
    }
    const auto binds = [&](const auto& stage) { return stage->binds(delta.matrix); };
    if (std::any_of(stages_.begin(), stages_.end(), binds)) continue;
    return Error{ErrorKind::invalid, "the adapter changes '" + delta.matrix + "', which the model lacks"};
  }
  auto adapter = std::make_unique<DeviceAdapter>();
  for (size_t i = 0; i < stages_.size(); i++) {
    Status added;
    ranks_[i]->run([&] { added = stages_[i]->add_deltas(deltas, *adapter); });
    FULMAR_TRY(added);
  }
  return adapter;
}

int64_t Model::states_that_fit(double share) const {
  int64_t fits = INT64_MAX;
  for (const StagePlan& stage : plan_) {
    size_t each = 0, free = 0;
    for (size_t i = 0; i < plan_.size(); i++) {
      if (plan_[i].gpu != stage.gpu) continue;
      each += plan_[i].memory.per_slot;
      free = ranks_[i]->ops().memory_free();
    }
    fits =
        std::min(fits, static_cast<int64_t>(share * static_cast<double>(free) / static_cast<double>(each)));
  }
  return fits;
}

void Model::throw_failure() const {
  for (const auto& rank : ranks_) {
    if (const std::string reason = rank->failure(); !reason.empty()) throw DeviceFailure(reason);
  }
}

// Posts a step to every rank. Each waits by itself for its predecessor's message and for its neighbours'
// slices.
std::future<void> Model::post(const StepInput& input, const StatePool& states, TakeOutputs take) {
  const auto kept = std::make_shared<const KeptInput>(input);
  const auto over = std::make_shared<Over>();
  std::future<void> future = over->promise.get_future();
  for (size_t i = led() ? 1 : 0; i < stages_.size(); i++) {
    ranks_[i]->post([this, i, kept, over, state = states.view(i),
                     take = i == output_stage() ? std::move(take) : nullptr] {
      stages_[i]->run(kept->view(), state);
      if (i == output_stage()) return take_outputs(static_cast<int64_t>(kept->wanted.size()), take);
      if (led()) return;  // the rest of the step is posted separately
      if (i > output_stage()) errands_->follow(i - output_stage());
      stages_[i]->check();
    });
  }
  return future;
}

// Takes a step's outputs. Call on the leading rank's thread.
void Model::take_outputs(int64_t wanted, const TakeOutputs& take) {
  if (take) take(StepOutputs(*this, wanted));
  if (errands_) errands_->step_over();
  last().check();  // before the caller sees what was taken
}

// Takes the outputs of a step that the caller leads. The other ranks then run a check, which keeps their
// threads awake for the next step.
void Model::conclude(Begun& step) {
  if (std::exchange(step.concluded, true)) return;
  ranks_.front()->run([&] { step.drawn ? finish_draws(*step.drawn) : take_outputs(step.wanted, step.take); });
  for (size_t i = 1; i < ranks_.size(); i++) ranks_[i]->post([this, i] { stages_[i]->check(); });
}

bool Model::begin_draws(std::span<const SampleRow> rows, std::span<SampledToken> out) {
  FULMAR_CHECK(led() && !begun_.empty() && rows.size() == out.size());
  Begun& step = begun_.back();
  FULMAR_CHECK(!step.concluded && !step.drawn);
  bool begun = false;
  ranks_.front()->run([&] {
    if (shares_draws(rows)) {
      begin_shared(step.wanted, rows);
      begun = true;
    } else if (!sliced()) {
      begun = last().rank().ops().begin_sample(last().logits(step.wanted), rows);
    }
  });
  if (begun) step.drawn = out;
  return begun;
}

void Model::finish_draws(std::span<SampledToken> out) {
  sliced() ? draws_->finish(out) : last().rank().ops().finish_sample(out);
  last().check();  // before the caller sees what was drawn
}

void Model::begin(const StepInput& input, const StatePool& states, TakeOutputs take) {
  const auto rows = static_cast<int64_t>(input.token.size());
  const auto wanted = static_cast<int64_t>(input.wanted.size());
  FULMAR_CHECK(rows >= 1 && rows <= max_rows_ && wanted <= max_wanted_);
  if (!led()) return begun_.push_back({.wanted = wanted, .over = post(input, states, std::move(take))});
  if (!begun_.empty() && !begun_.back().drawn) conclude(begun_.back());
  StepInput own = input;
  const bool ahead = std::any_of(input.token.begin(), input.token.end(), [](int32_t id) { return id < 0; });
  if (ahead) own.drawn = last().rank().ops().drawn();
  if (spread()) post(own, states, {});
  ranks_.front()->run([&] { last().run(own, states.view(0)); });
  begun_.push_back({.wanted = wanted, .take = std::move(take)});
}

void Model::finish() {
  FULMAR_CHECK(!begun_.empty());
  Begun step = std::move(begun_.front());
  begun_.pop_front();
  led() ? conclude(step) : step.over.wait();
  throw_failure();
}

void Model::abandon() {
  begun_.clear();
  for (const auto& rank : ranks_) rank->finish();
}

Tensor Model::forward(const StepInput& input, const StatePool& states) {
  begin(input, states, sliced() ? [](const StepOutputs& outputs) { outputs.logits(); } : TakeOutputs());
  if (led()) conclude(begun_.back());
  begun_.pop_back();
  wanted_ = static_cast<int64_t>(input.wanted.size());
  return last().logits(wanted_);
}

Tensor Model::hidden() { return last().hidden(wanted_); }

void Model::read(void* host, const void* source, size_t bytes) {
  Rank& rank = last().rank();
  rank.run([&] { rank.ops().read(host, source, bytes); });
}

void Model::synchronise() {
  for (const auto& rank : ranks_) rank->run([&] { rank->ops().synchronise(); });
}

}  // namespace fulmar
