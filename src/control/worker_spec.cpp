// Validation of a worker's description.
#include "control/worker_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "net/json.h"

namespace fulmar {
namespace fs = std::filesystem;
namespace {

constexpr size_t kLongestName = 64;
constexpr size_t kMostProblems = 32;  // that an answer names

constexpr size_t kMostModelFiles = 1000;
constexpr int kDeepestFolder = 4;

// Reads field after field and collects what is wrong with them.
class FieldReader {
 public:
  FieldReader(const JsonValue& body, std::vector<FieldProblem>& problems)
      : body_(body), problems_(problems) {}

  void text(std::string_view field, std::string& target) {
    take(field, get_string(body_, field), [&](std::string value) {
      if (value.find('\0') != std::string::npos) {
        refuse(field, fmt::format("{}: contains a NUL byte", field));
      } else {
        target = std::move(value);
      }
    });
  }
  void whole(std::string_view field, int64_t least, int64_t most, int64_t& target) {
    take(field, get_int(body_, field, least, most), [&](int64_t value) { target = value; });
  }
  void whole(std::string_view field, int64_t least, int64_t most, std::optional<int64_t>& target) {
    take(field, get_int(body_, field, least, most), [&](int64_t value) { target = value; });
  }
  void flag(std::string_view field, bool& target) {
    take(field, get_bool(body_, field), [&](bool value) { target = value; });
  }
  // Refuses what the body has beside the fields that were read before; of very many, the first.
  void refuse_others() {
    if (!body_.is_object()) return;
    for (const auto& [name, value] : body_.as_object().members()) {
      if (problems_.size() >= kMostProblems) return;
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      const std::string_view why =
          name == "args" ? "is taken from a configuration file alone" : "is no field of a worker";
      refuse(name, fmt::format("{}: {}; wanted {}", name, why, fmt::join(known_, ", ")));
    }
  }
  void refuse(std::string_view field, std::string message, std::string type = "value_error") {
    problems_.push_back({std::string(field), std::move(message), std::move(type)});
  }

 private:
  template <class T, class Use>
  void take(std::string_view field, Result<std::optional<T>> found, Use use) {
    known_.push_back(field);
    if (!found.ok()) return refuse(field, found.error().text);
    if (found->has_value()) use(std::move(**found));
  }

  const JsonValue& body_;
  std::vector<FieldProblem>& problems_;
  std::vector<std::string_view> known_;
};

// Returns what is wrong with the number of a GPU; nothing where it may be one. Start scripts name the first
// one everywhere: where there are none, that is the CPU.
std::string gpu_fault(std::optional<int64_t> gpu, const std::optional<std::vector<int64_t>>& gpus) {
  if (!gpu || !gpus || (gpus->empty() && *gpu == 0)) return {};
  if (std::find(gpus->begin(), gpus->end(), *gpu) != gpus->end()) return {};
  const std::string found = gpus->empty() ? "none" : fmt::format("{}", fmt::join(*gpus, ", "));
  return fmt::format("gpu_id: is {}; this machine's GPUs are: {}", *gpu, found);
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool lies_below(const fs::path& path, const fs::path& folder) {
  const auto [end, at] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end() && at != path.end();
}

Result<std::string> locate_below(const fs::path& asked, const std::string& models_dir) {
  std::error_code error;
  const fs::path root = fs::canonical(models_dir, error);
  if (error) {
    return Error{ErrorKind::not_found, fmt::format("models folder {}: {}", models_dir, error.message())};
  }
  for (const char* ending : {"", ".pth"}) {
    fs::path candidate = root / asked;  // an absolute path replaces the root
    candidate += ending;
    const fs::path real = fs::weakly_canonical(candidate, error);
    if (!error && lies_below(real, root) && is_file(real)) return real.string();
  }
  return Error{ErrorKind::not_found, fmt::format("no file '{}' below the models folder", asked.string())};
}

// Returns the extra arguments that spread a model over several devices, with their values; empty: there are
// none.
std::string spread_of(const WorkerSpec& spec) {
  constexpr std::string_view kFlags[] = {"--devices",    "--split",    "--tp",
                                         "--pp-devices", "--pp-split", "--tp-devices"};
  std::string text;
  const auto add = [&](std::string_view word) { text += (text.empty() ? "" : " ") + std::string(word); };
  const std::vector<std::string>& words = spec.extra_arguments;
  for (size_t i = 0; i < words.size(); i++) {
    const std::string_view word = words[i], name = word.substr(0, word.find('='));
    if (std::find(std::begin(kFlags), std::end(kFlags), name) == std::end(kFlags)) continue;
    const bool apart = name == word && i + 1 < words.size();
    const std::string_view value = apart ? std::string_view(words[++i]) : word.substr(name.size());
    const bool several = value.find(',') != std::string_view::npos || value.ends_with("all");
    if (name == "--devices" && !several) continue;
    add(word);
    if (apart) add(value);
  }
  return text;
}

}  // namespace

bool shares_sessions(const WorkerSpec& spec) {
  return spec.shared_store ||
         std::any_of(spec.extra_arguments.begin(), spec.extra_arguments.end(),
                     [](std::string_view word) { return word.substr(0, word.find('=')) == "--state-store"; });
}

Result<std::string> locate_model(const std::string& path, const std::string& models_dir) {
  if (!models_dir.empty()) return locate_below(path, models_dir);
  for (const char* ending : {"", ".pth"}) {
    if (is_file(path + ending)) return path + ending;
  }
  return Error{ErrorKind::not_found, fmt::format("no file '{0}', nor '{0}.pth'", path)};
}

ParsedSpec parse_worker_spec(const JsonValue& body, const WorkerSurroundings& surroundings) {
  ParsedSpec parsed;
  WorkerSpec& spec = parsed.spec;
  spec.shared_store = surroundings.shared_store;
  FieldReader fields(body, parsed.problems);
  fields.text("name", spec.name);
  if (spec.name.size() > kLongestName) {
    fields.refuse("name",
                  fmt::format("name: has {} bytes, wanted at most {}", spec.name.size(), kLongestName));
  }
  fields.text("model_path", spec.model_path);
  fields.text("tokenizer_path", spec.tokenizer_path);
  fields.text("host", spec.host);
  fields.whole("gpu_id", 0, 1023, spec.gpu_id);
  if (const std::string fault = gpu_fault(spec.gpu_id, surroundings.gpus); !fault.empty()) {
    fields.refuse("gpu_id", fault);
  }
  fields.whole("port", 1, 65535, spec.port);
  fields.whole("max_batch_size", 1, 4096, spec.max_batch_size);
  fields.whole("max_prefill_batch", 1, 4096, spec.max_prefill_batch);
  fields.whole("max_queue_size", 1, 1'000'000, spec.max_queue_size);
  fields.whole("prefill_chunk_size", 1, 65536, spec.prefill_chunk_size);
  fields.flag("use_cuda_graph", spec.use_cuda_graph);
  std::string restart(name_of(spec.restart));
  fields.text("restart", restart);
  if (const auto policy = restart_policy_named(restart)) {
    spec.restart = *policy;
  } else {
    fields.refuse("restart", fmt::format("restart: is '{}', wanted off, on-failure or always", restart));
  }
  fields.refuse_others();
  if (spec.host.empty()) fields.refuse("host", "host: is empty, wanted an address");
  const bool already_refused = std::any_of(parsed.problems.begin(), parsed.problems.end(),
                                           [](const auto& problem) { return problem.field == "model_path"; });
  if (already_refused) return parsed;
  if (spec.model_path.empty()) {
    fields.refuse("model_path", "model_path: is missing", "missing");
  } else if (auto found = locate_model(spec.model_path, surroundings.models_dir); !found.ok()) {
    fields.refuse("model_path", "model_path: " + found.error().text);
  } else if (!surroundings.models_dir.empty()) {
    spec.model_path = std::move(*found);
    spec.models_dir = surroundings.models_dir;
  }
  if (!spec.tokenizer_path.empty() && !surroundings.models_dir.empty()) {
    auto found = locate_model(spec.tokenizer_path, surroundings.models_dir);
    if (found.ok()) {
      spec.tokenizer_path = std::move(*found);
    } else {
      fields.refuse("tokenizer_path", "tokenizer_path: " + found.error().text);
    }
  }
  return parsed;
}

std::vector<std::string> serve_arguments(const WorkerSpec& spec, const WorkerFiles& files,
                                         int64_t grace_seconds) {
  std::vector<std::string> arguments{"serve"};
  const auto add = [&](std::string flag, std::string value) {
    arguments.push_back(std::move(flag));
    arguments.push_back(std::move(value));
  };
  // The value sits in the same word, so that a path that begins with '-' is not taken for a flag.
  arguments.push_back("--model=" + spec.model_path);
  if (!spec.tokenizer_path.empty()) arguments.push_back("--vocab=" + spec.tokenizer_path);
  if (!spec.models_dir.empty()) arguments.push_back("--model-root=" + spec.models_dir);
  arguments.push_back("--host=" + spec.host);
  add("--port", std::to_string(spec.port));
  add("--slots", std::to_string(spec.max_batch_size));
  add("--max-queue", std::to_string(spec.max_queue_size));
  add("--prefill-chunk", std::to_string(spec.prefill_chunk_size));
  if (!shares_sessions(spec)) arguments.push_back("--state-db-path=" + files.sessions);
  if (!files.states.empty()) arguments.push_back("--state-dir=" + files.states);
  add("--grace", std::to_string(grace_seconds));
  arguments.push_back("--quiet");
  arguments.insert(arguments.end(), spec.extra_arguments.begin(), spec.extra_arguments.end());
  return arguments;
}

void write_spec(JsonWriter& json, const WorkerSpec& spec) {
  json.begin_object().member("model_path", spec.model_path);
  json.key("tokenizer_path");
  if (spec.tokenizer_path.empty()) {
    json.null();
  } else {
    json.value(spec.tokenizer_path);
  }
  json.member("host", spec.host).member("port", spec.port).key("gpu_id");
  if (spec.gpu_id) {
    json.value(*spec.gpu_id);
  } else {
    json.null();
  }
  json.member("max_batch_size", spec.max_batch_size)
      .member("max_prefill_batch", spec.max_prefill_batch)
      .member("max_queue_size", spec.max_queue_size)
      .member("prefill_chunk_size", spec.prefill_chunk_size)
      .member("use_cuda_graph", spec.use_cuda_graph)
      .member("restart", name_of(spec.restart));
  if (const std::string spread = spread_of(spec); !spread.empty()) json.member("spread", spread);
  json.end_object();
}

std::string problems_json(const std::vector<FieldProblem>& problems) {
  JsonWriter json;
  json.begin_object().key("detail").begin_array();
  for (const FieldProblem& problem : problems) {
    json.begin_object().key("loc").begin_array().value("body").value(problem.field).end_array();
    json.member("msg", problem.message).member("type", problem.type).end_object();
  }
  json.end_array().end_object();
  return json.take();
}

std::vector<ModelFile> list_model_files(const std::string& models_dir) {
  std::vector<ModelFile> files;
  std::error_code error;
  if (models_dir.empty()) return files;
  fs::recursive_directory_iterator at(models_dir, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator() && files.size() < kMostModelFiles;
       at.increment(error)) {
    if (at.depth() >= kDeepestFolder) at.disable_recursion_pending();
    const fs::path& path = at->path();
    const std::string ending = path.extension().string();
    if (ending != ".pth" && ending != ".safetensors" && ending != ".st") continue;
    if (path.string().ends_with(".state.pth")) continue;  // a tuned state, not a model
    std::error_code refused;
    const uint64_t bytes = fs::file_size(path, refused);
    if (!refused) files.push_back({path.lexically_relative(models_dir).string(), bytes});
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace fulmar
