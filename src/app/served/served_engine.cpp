#include "app/served/served_engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <mutex>
#include <thread>

#include "app/core/draft_source.h"
#include "base/log.h"
#include "base/sha256.h"
#include "files/mapped_file.h"
#include "model/warm_up.h"
#include "ops/device.h"
#include "server/adapters/adapter_shelf.h"
#include "text/think_mode.h"

namespace fulmar {

namespace {

// Rows whose logits a step has room for, unless --slots asks for more.
constexpr int64_t kMostSlots = 1024, kMostHostSlots = 64;
// The fraction of free memory for states if --slots is not given: a GPU is all ours, a host is not.
constexpr double kShareOfDevice = 0.8, kShareOfHost = 0.25;

Result<std::optional<int32_t>> end_token(const std::string& flag, const Tokenizer& tokenizer,
                                         int64_t vocabulary) {
  if (flag.empty()) return tokenizer.eos();
  if (flag == "none") return std::optional<int32_t>();
  int32_t id = -1;
  const char* end = flag.data() + flag.size();
  const auto parsed = std::from_chars(flag.data(), end, id);
  if (parsed.ec != std::errc() || parsed.ptr != end || id < 0 || id >= vocabulary) {
    return Error{ErrorKind::invalid,
                 fmt::format("--eos-id is '{}'; wanted 'none' or 0 to {}", flag, vocabulary - 1)};
  }
  return std::optional<int32_t>(id);
}

// Returns as many slots as fit into a fraction of the free memory, but no more than one step can usefully
// run; --slots may ask for more.
int64_t choose_slots(const LoadedModel& loaded, int64_t others) {
  const DeviceTraits traits = loaded.devices.front()->traits();
  const double share = traits.own_memory ? kShareOfDevice : kShareOfHost;
  return std::clamp<int64_t>(loaded.model->states_that_fit(share) - others, 1, traits.suitable_sequences);
}

struct HeldGpu {
  const Ops* ops;
  DeviceMemory memory;
};

// Returns the GPUs of a model, each once.
std::vector<HeldGpu> gpus_of(const LoadedModel& loaded) {
  const std::vector<GpuInfo> all = list_gpus();
  const std::span<const StagePlan> stages = loaded.model->plan();
  std::vector<HeldGpu> held;
  for (size_t i = 0; i < stages.size(); i++) {
    const auto known =
        std::find_if(all.begin(), all.end(), [&](const GpuInfo& gpu) { return gpu.index == stages[i].gpu; });
    if (known == all.end()) continue;
    const std::string name = fmt::format("{}:{}", gpu_kind(), known->index);
    auto place =
        std::find_if(held.begin(), held.end(), [&](const HeldGpu& gpu) { return gpu.memory.device == name; });
    if (place == held.end()) {
      place = held.insert(place,
                          {loaded.devices[i].get(), {name, static_cast<int64_t>(known->memory_total), 0, 0}});
    }
    place->memory.layers += stages[i].layers.count();
  }
  return held;
}

// Returns a function that asks the GPUs of a model for their memory; empty for the
// CPU. The model outlives it.
std::function<std::vector<DeviceMemory>()> memory_of(const LoadedModel& loaded) {
  const std::vector<HeldGpu> gpus = gpus_of(loaded);
  if (gpus.empty()) return nullptr;
  return [gpus] {
    std::vector<DeviceMemory> memories;
    for (const HeldGpu& gpu : gpus) {
      memories.push_back(gpu.memory);
      try {
        memories.back().free = static_cast<int64_t>(gpu.ops->memory_free());
      } catch (const DeviceFailure&) {
        memories.back().free = 0;  // a lost device has nothing to give
      }
    }
    return memories;
  };
}

// Returns a function that hashes a model's file, once.
std::function<Result<std::string>()> digest_of_file(const std::filesystem::path& path) {
  struct Known {
    std::mutex mutex;
    std::string digest;
  };
  return [path, known = std::make_shared<Known>()]() -> Result<std::string> {
    std::lock_guard lock(known->mutex);
    if (!known->digest.empty()) return known->digest;
    if (!std::filesystem::is_regular_file(path)) {
      return Error{
          ErrorKind::invalid,
          fmt::format("the model '{}' is no single file, so its SHA-256 cannot be compared with that of "
                      "the adapter's base; --adapter-any-base takes the adapter all the same",
                      path.filename().string())};
    }
    FULMAR_ASSIGN(known->digest, watched([&]() -> Result<std::string> {
                    FULMAR_ASSIGN(const auto file, MappedFile::open(path));
                    return sha256_hex(as_text(file->bytes()));
                  }));
    return known->digest;
  };
}

}  // namespace

int64_t file_time(const std::filesystem::path& path) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path, error);
  if (error) return 0;
  const auto system = std::chrono::file_clock::to_sys(written);
  return std::chrono::duration_cast<std::chrono::seconds>(system.time_since_epoch()).count();
}

ServedModel facts_of_files(const std::filesystem::path& path, const ModelConfig& config,
                           const PromptTemplate& prompt_template) {
  ServedModel facts;
  facts.path = path.string();
  facts.id = served_id(facts.path);
  facts.created = file_time(path);
  facts.architecture = fmt::format("rwkv{}", config.version);
  facts.runtime = name_of(config.dtype);
  facts.vocabulary = config.vocab;
  facts.parameters = config.parameters;
  facts.prompt_template = &prompt_template;
  return facts;
}

void make_revocable(const ServeEngineFlags& flags, ModelFlags& model) {
  model.devices.revocable = flags.speculate == "off" ? 0 : flags.speculate_most + 1;
  model.devices.revocable_on_gpu = flags.speculate != "auto" || !flags.draft_model.empty();
}

int64_t wanted_rows(int64_t slots, const DeviceFlags& devices) {
  return std::max<int64_t>(slots, on_host(devices) ? kMostHostSlots : kMostSlots);
}

int64_t prefill_chunk(const ServeEngineFlags& flags, const Model& model) {
  return flags.prefill_chunk > 0 ? flags.prefill_chunk : model.max_rows() / 2;
}

Result<std::shared_ptr<ServedEngine>> ServedEngine::open(const ModelFlags& model,
                                                         const ServeEngineFlags& flags,
                                                         SessionLadders& sessions, const ServeAs& as) {
  ModelFlags sized = model;
  sized.max_wanted = wanted_rows(flags.slots, model.devices);
  make_revocable(flags, sized);
  sized.slots = std::max<int64_t>(flags.slots, 1);
  if (!flags.cache.device_mib) sized.slots += flags.cache.unsaid.device_states();
  sized.kept_mib = flags.cache.device_mib.value_or(0);
  FULMAR_ASSIGN(LoadedModel loaded, load_model(sized));
  std::unique_ptr<LoadedModel> draft;
  if (!flags.draft_model.empty()) {
    FULMAR_ASSIGN(LoadedModel small, load_draft_model(model, flags.draft_model, loaded));
    draft = std::make_unique<LoadedModel>(std::move(small));
  }
  return make(std::move(loaded), flags, sessions, as, std::move(draft));
}

Result<std::shared_ptr<ServedEngine>> ServedEngine::make(LoadedModel model, const ServeEngineFlags& flags,
                                                         SessionLadders& sessions, const ServeAs& as,
                                                         std::unique_ptr<LoadedModel> draft) {
  auto served = std::make_shared<ServedEngine>();
  served->loaded_ = std::move(model);
  served->draft_ = std::move(draft);
  const LoadedModel& loaded = served->loaded_;
  const StateLayout layout = loaded.model->state_layout();

  FULMAR_TRY(warm_up(*loaded.model));
  const CacheShares kept = share_caches(flags.cache, loaded.model->memory().per_slot, layout.slot_bytes());
  FULMAR_TRY(check_room_for_sessions(kept, sessions.stored(), layout.slot_bytes()));
  const WaitingBounds waiting =
      waiting_bounds(flags.max_queue, flags.max_waiting_rows, flags.max_waiting_mib);
  EngineOptions options{.max_queue = flags.max_queue,
                        .max_waiting_rows = waiting.rows,
                        .max_waiting_bytes = waiting.bytes,
                        .max_prompt_tokens = flags.max_prompt_tokens};
  options.device_sessions = kept.device_sessions;
  options.on_failure = flags.on_failure;
  options.prefix_slots = kept.device_prefixes;
  options.share_prefixes = flags.share_prefixes;
  // As far as the model's states can be rolled back, for which its device was opened.
  options.speculation.ngrams = flags.speculate == "auto" || flags.speculate == "ngram";
  options.speculation.most = flags.speculate_most;
  if (served->draft_) {
    options.speculation.draft_model = served->draft_->model.get();
    options.speculation.draft_ops = served->draft_->devices.front().get();
  }
  options.prefixes.host_bytes = static_cast<size_t>(kept.host_prefix_mib * (1 << 20));
  const int64_t others = kept.device_states();
  options.slots = flags.slots > 0 ? flags.slots : choose_slots(loaded, others);
  options.slots = std::min(options.slots, loaded.model->max_wanted());
  served->slots_ = options.slots;
  served->kept_ = others;
  options.prefill_chunk = prefill_chunk(flags, *loaded.model);
  if (loaded.fixed_cuts) options.prompt_piece = options.prefill_chunk;
  spdlog::info("memory weights={} MiB workspace={} MiB state={} KiB slots={} chunk={}",
               loaded.model->memory().weights >> 20, loaded.model->memory().workspace >> 20,
               loaded.model->memory().per_slot >> 10, options.slots, options.prefill_chunk);
  FULMAR_ASSIGN(served->engine_, Engine::start(*loaded.model, *loaded.tokenizer, options,
                                               sessions.of(loaded.model->fingerprint(), kept.host_sessions)));

  auto facts = std::make_shared<ServedModel>(
      facts_of_files(loaded.path, loaded.model->config(), *loaded.prompt_template));
  if (!as.id.empty()) facts->id = as.id;
  if (!loaded.quantised.empty()) facts->runtime = loaded.quantised;
  facts->default_temperature = as.default_temperature;
  facts->default_top_p = as.default_top_p;
  facts->end_text = as.end_text;
  facts->weight_bytes = static_cast<int64_t>(loaded.weight_bytes);
  facts->state_bytes = static_cast<int64_t>(layout.slot_bytes());
  facts->device_memory = memory_of(loaded);
  facts->engine = served->engine_.get();
  facts->tokenizer = loaded.tokenizer.get();
  facts->adapters = std::make_shared<AdapterShelf>(
      *served->engine_, AdapterBase{loaded.shapes, digest_of_file(loaded.path),
                                    [path = loaded.path] { return open_checkpoint(path); }});
  FULMAR_ASSIGN(facts->end_token, end_token(flags.eos_id, *loaded.tokenizer, facts->vocabulary));
  facts->stops = stop_defaults(*loaded.tokenizer, *loaded.prompt_template);
  const std::optional<ThinkTemplate> thinks = parse_think_template(flags.think_template);
  const bool marked =
      thinks == ThinkTemplate::automatic && loaded.prompt_template->unasked != ThinkMode::none;
  facts->thinks = marked || thinks_by_default(*thinks, served_id(facts->path));
  served->served_ = std::move(facts);
  return served;
}

Footing ServedEngine::footing() const {
  const ModelConfig& is = config();
  size_t weights = 0, workspace = 0;
  for (const LoadedModel* loaded : std::initializer_list<const LoadedModel*>{&loaded_, draft_.get()}) {
    if (!loaded) continue;
    const MemoryPlan memory = loaded->model->memory();
    weights += std::max(memory.weights, loaded->weight_bytes);
    workspace += memory.workspace;
  }
  return {.device = loaded_.model->device(),
          .architecture =
              fmt::format("RWKV-{}{}, {:.3g} billion parameters, {}", is.version, is.deep_embed ? "a" : "",
                          static_cast<double>(is.parameters) / 1e9, name_of(is.dtype)),
          .weights = weights,
          .workspace = workspace,
          .per_slot = loaded_.model->memory().per_slot,
          .slots = slots_,
          .kept = kept_};
}

void let_go(std::shared_ptr<ServedEngine> served) {
  while (served.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace fulmar
