#include "tune/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/read_file.h"
#include "base/write_file.h"
#include "files/mapped_file.h"
#include "files/pth.h"
#include "files/pth_writer.h"
#include "net/json.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostCheckpointJson = 1 << 20;
constexpr std::string_view kTensors = "tensors.pth", kJson = "checkpoint.json", kFolder = "checkpoint-";

std::string_view name_of(TuneMethod method) {
  switch (method) {
    case TuneMethod::state:
      return "state";
    case TuneMethod::lora:
      return "lora";
    case TuneMethod::miss:
      return "miss";
  }
  return "";
}

std::string_view name_of(Schedule schedule) {
  switch (schedule) {
    case Schedule::geometric:
      return "geometric";
    case Schedule::cosine:
      return "cosine";
    case Schedule::constant:
      return "constant";
  }
  return "";
}

// Returns each setting that changes what a run computes, by name.
std::vector<std::pair<std::string, std::string>> configuration_of(const TuneSettings& settings) {
  const LearningRate& rate = settings.rate;
  return {{"method", std::string(name_of(settings.method))},
          {"rank", fmt::to_string(settings.rank)},
          {"alpha", fmt::to_string(settings.alpha)},
          {"schedule", std::string(name_of(rate.schedule))},
          {"lr", fmt::to_string(rate.first)},
          {"lr-final", fmt::to_string(rate.last)},
          {"warmup", fmt::to_string(rate.warmup)},
          {"clip", fmt::to_string(settings.clip)},
          {"batch", fmt::to_string(settings.batch)},
          {"steps", fmt::to_string(settings.steps)},
          {"seed", fmt::to_string(settings.seed)},
          {"model", settings.base},
          {"data", settings.data}};
}

StoredTensor view_of(std::string name, const Matrix<float>& m, std::vector<int64_t> shape) {
  StoredTensor tensor{.name = std::move(name), .dtype = DType::f32, .shape = std::move(shape)};
  tensor.strides = row_major_strides(tensor.shape);
  tensor.data = reinterpret_cast<const std::byte*>(m.values.data());
  return tensor;
}
StoredTensor view_of(std::string name, const Matrix<float>& m) {
  return view_of(std::move(name), m, {m.rows, m.cols});
}

// Reads a checkpoint's tensors, by name.
class SavedTensors {
 public:
  static Result<SavedTensors> open(const fs::path& path) {
    SavedTensors saved;
    FULMAR_ASSIGN(saved.file_, MappedFile::open(path));
    auto parts = read_pth(saved.file_->bytes());
    if (!parts.ok())
      return Error{parts.error().kind, fmt::format("{}: {}", path.string(), parts.error().text)};
    saved.checkpoint_ = make_checkpoint(std::move(*parts));
    saved.path_ = path.string();
    return saved;
  }

  size_t count() const { return checkpoint_->tensors().size(); }
  // Copies the tensor into a matrix of its shape.
  Status copy(const std::string& name, Matrix<float>& to) const {
    const StoredTensor* tensor = checkpoint_->find(name);
    const std::vector<int64_t> wanted = {to.rows, to.cols};
    if (tensor == nullptr || tensor->dtype != DType::f32 || tensor->shape != wanted) {
      return Error{ErrorKind::corrupt, fmt::format("{}: '{}' is {}; wanted f32 {}", path_, name,
                                                   tensor == nullptr ? "missing" : shape_text(tensor->shape),
                                                   shape_text(wanted))};
    }
    copy_as_f32(*tensor, to.values);
    return {};
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::string path_;
};

// Checks the settings of checkpoint.json against those of this run; returns the steps done.
Result<int64_t> check_configuration(const fs::path& path, const TuneSettings& settings) {
  FULMAR_ASSIGN(const std::string text, read_file(path, kMostCheckpointJson));
  FULMAR_ASSIGN(const JsonValue json, parse_json(text));
  for (const auto& [name, here] : configuration_of(settings)) {
    const JsonValue* saved = json.find(name);
    const std::string there = saved != nullptr && saved->is_string() ? saved->as_string() : "none";
    if (there == here) continue;
    return Error{ErrorKind::invalid, fmt::format("{}: the saved run has {} '{}', this one '{}'",
                                                 path.string(), name, there, here)};
  }
  FULMAR_ASSIGN(const auto steps, get_int(json, "steps_done", 1, settings.steps));
  if (!steps) return Error{ErrorKind::corrupt, fmt::format("{}: 'steps_done' is missing", path.string())};
  return *steps;
}

// Returns the endings of the names that a method trains.
std::vector<std::string_view> trained_by(TuneMethod method) {
  if (method == TuneMethod::state) return {".att.time_state"};
  return {".lora_A", ".lora_B", ".miss"};
}

ModelParameters<float>& prepared(ModelParameters<float>& parameters, const TuneSettings& settings) {
  if (settings.method != TuneMethod::state) {
    const bool lora = settings.method == TuneMethod::lora;
    const AdapterShape shape{lora ? AdapterKind::lora : AdapterKind::miss, settings.rank,
                             lora ? settings.alpha / static_cast<double>(settings.rank) : 1};
    for (const std::string& matrix : adapted_matrices_of(parameters.config)) {
      add_adapter(parameters, matrix, shape, settings.seed);
    }
  }
  parameters.train(trained_by(settings.method));
  return parameters;
}

}  // namespace

Tuning::Tuning(ModelParameters<float>& parameters, const Samples& samples, const TuneSettings& settings)
    : parameters_(prepared(parameters, settings)),
      samples_(samples),
      settings_(settings),
      model_(parameters) {}

Result<TuneStep> Tuning::step() {
  const auto count = static_cast<int64_t>(samples_.samples.size());
  const TuneBatch batch = batch_of(samples_, samples_of_step(done(), count, settings_.batch, settings_.seed));
  for (auto& [name, parameter] : parameters_.all) std::ranges::fill(parameter.gradient.values, 0.0f);
  TuneStep report{.step = done() + 1, .tokens = static_cast<int64_t>(batch.tokens.size())};
  report.rate = learning_rate(settings_.rate, done(), settings_.steps);
  report.loss = model_.loss_and_gradients(batch);
  if (!std::isfinite(report.loss)) {
    return Error{ErrorKind::invalid,
                 fmt::format("the loss of step {} is not finite; a lower --lr may help", report.step)};
  }
  report.gradient_norm = adam_.step(parameters_, report.rate, settings_.clip);
  if (!std::isfinite(report.gradient_norm)) {
    return Error{ErrorKind::invalid,
                 fmt::format("a gradient of step {} is not finite; a lower --lr may help", report.step)};
  }
  return report;
}

Status Tuning::save(const fs::path& folder) const {
  std::error_code failed;
  fs::create_directories(folder, failed);
  std::vector<StoredTensor> tensors;
  for (const auto& [name, moments] : adam_.moments) {
    tensors.push_back(view_of("value." + name, parameters_.all.at(name).value));
    tensors.push_back(view_of("first." + name, moments.first));
    tensors.push_back(view_of("second." + name, moments.second));
  }
  FULMAR_TRY(write_pth(folder / kTensors, tensors));
  JsonWriter json;
  json.begin_object().member("steps_done", done());
  for (const auto& [name, value] : configuration_of(settings_)) json.member(name, value);
  json.end_object();
  return write_whole_file(folder / kJson, json.text() + "\n");
}

Status Tuning::resume(const fs::path& folder) {
  FULMAR_ASSIGN(const int64_t steps, check_configuration(folder / kJson, settings_));
  FULMAR_ASSIGN(const SavedTensors saved, SavedTensors::open(folder / kTensors));
  std::map<std::string, Matrix<float>> values;
  std::map<std::string, Moments<float>, std::less<>> all;
  for (const auto& [name, parameter] : parameters_.all) {
    if (!parameter.trained()) continue;
    Moments<float>& moments = all[name];
    values[name] = moments.first = moments.second = Matrix<float>(parameter.value.rows, parameter.value.cols);
    FULMAR_TRY(saved.copy("value." + name, values[name]));
    FULMAR_TRY(saved.copy("first." + name, moments.first));
    FULMAR_TRY(saved.copy("second." + name, moments.second));
  }
  if (saved.count() != 3 * all.size()) {
    return Error{ErrorKind::corrupt, fmt::format("{}: {} tensors; wanted {}", (folder / kTensors).string(),
                                                 saved.count(), 3 * all.size())};
  }
  for (auto& [name, value] : values) parameters_.find(name)->value = std::move(value);
  adam_.moments = std::move(all);
  adam_.steps = steps;
  return {};
}

Result<fs::path> Tuning::write_result(const fs::path& folder, const TuneFacts& facts) const {
  const ModelConfig& config = parameters_.config;
  const bool state = settings_.method == TuneMethod::state;
  const fs::path path = folder / (state ? "state-final.pth" : "adapter-final.pth");
  std::vector<StoredTensor> tensors;
  for (const auto& [name, parameter] : parameters_.all) {
    if (!parameter.trained()) continue;
    if (state) {
      tensors.push_back(view_of(name, parameter.value, {config.n_head, config.head_size, config.head_size}));
    } else if (settings_.method == TuneMethod::miss) {  // RWKV-PEFT's word for it
      tensors.push_back(view_of(name.substr(0, name.rfind('.')) + ".disha", parameter.value));
    } else {
      tensors.push_back(view_of(name, parameter.value));
    }
  }
  FULMAR_TRY(write_pth(path, tensors));
  if (settings_.method == TuneMethod::lora) {
    JsonWriter alpha;
    alpha.begin_object().member("alpha", settings_.alpha).end_object();
    FULMAR_TRY(write_whole_file(folder / "adapter-final.json", alpha.text() + "\n"));
  }
  JsonWriter json;
  json.begin_object().member("method", name_of(settings_.method)).member("steps", done());
  json.member("model_sha256", settings_.base).member("data_sha256", settings_.data);
  for (const auto& [name, value] : facts) json.member(name, value);
  json.end_object();
  FULMAR_TRY(write_whole_file(folder / "tune.json", json.text() + "\n"));
  return path;
}

int64_t largest_batch(const Samples& samples, int64_t batch) {
  std::vector<int64_t> lengths;
  for (const TuneSample& one : samples.samples) lengths.push_back(static_cast<int64_t>(one.tokens.size()));
  std::ranges::sort(lengths, std::greater());
  lengths.resize(std::min(lengths.size(), static_cast<size_t>(batch)));
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

int64_t tuning_bytes(const ModelConfig& config, const TuneSettings& settings, const TuneSizes& sizes) {
  constexpr int64_t kHeadRows = 256;
  const int64_t width = config.n_embd, state = width * config.head_size;
  int64_t trained = config.n_layer * state;
  if (settings.method != TuneMethod::state) {  // of a layer: at most ten widths in and out of its matrices
    trained = config.n_layer * settings.rank * (10 * width + 2 * config.n_ffn) * 2;
  }
  const int64_t streams = (config.n_layer + 3) * width;                          // of a row
  const int64_t one_layer = 60 * width + 6 * config.n_ffn + state / kKeptEvery;  // tape and gradients
  const int64_t carries = 4 * std::min(settings.batch, sizes.rows) * (state + 2 * width);
  const int64_t head = kHeadRows * (2 * config.vocab + 3 * width);
  return 4 * (sizes.numbers + 4 * trained + sizes.rows * (streams + one_layer) + carries + head);
}

fs::path checkpoint_folder(const fs::path& run, int64_t steps) {
  return run / fmt::format("{}{}", kFolder, steps);
}

Result<fs::path> last_checkpoint(const fs::path& run) {
  int64_t last = 0;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(run, failed)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kFolder) || !fs::exists(entry.path() / kJson, failed)) continue;
    int64_t steps = 0;
    std::from_chars(name.data() + kFolder.size(), name.data() + name.size(), steps);
    last = std::max(last, steps);
  }
  if (last > 0) return checkpoint_folder(run, last);
  return Error{ErrorKind::not_found, fmt::format("{} holds no checkpoint of a run", run.string())};
}

}  // namespace fulmar
