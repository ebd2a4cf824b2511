// The only includer of the YAML library. Nodes become a JSON tree, so that one validation serves both doors.
#include "control/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/read_file.h"

namespace fulmar {
namespace {

constexpr std::string_view kFields[] = {"name",
                                        "model_path",
                                        "tokenizer_path",
                                        "gpu_id",
                                        "host",
                                        "port",
                                        "max_batch_size",
                                        "max_prefill_batch",
                                        "max_queue_size",
                                        "prefill_chunk_size",
                                        "use_cuda_graph",
                                        "restart",
                                        "args"};

// Converts a worker's scalar fields to JSON strings; the lenient readers of the fields parse numbers and
// flags.
JsonValue json_of(const YAML::Node& worker) {
  std::vector<JsonObject::Member> members;
  for (const auto& field : worker) {
    if (field.second.IsScalar()) {
      members.emplace_back(field.first.as<std::string>(), JsonValue(field.second.as<std::string>()));
    }
  }
  return JsonValue(JsonObject(std::move(members)));
}

// Checks that no name is given twice: the YAML library would keep both and find one of them.
Status check_given_once(const YAML::Node& map, const std::string& title) {
  std::map<std::string, int> lines;
  for (const auto& field : map) {
    const auto name = field.first.as<std::string>();
    const int line = field.first.Mark().line + 1;
    const auto [first, fresh] = lines.emplace(name, line);
    if (fresh) continue;
    return Error{ErrorKind::invalid, fmt::format("{}'{}' is in line {} and line {}; wanted once", title, name,
                                                 first->second, line)};
  }
  return {};
}

Status check_fields(const YAML::Node& worker, const std::string& title) {
  for (const auto& field : worker) {
    const auto name = field.first.as<std::string>();
    if (std::find(std::begin(kFields), std::end(kFields), name) == std::end(kFields)) {
      return Error{ErrorKind::invalid, fmt::format("{}: unknown field '{}'", title, name)};
    }
    const bool good =
        name == "args" ? field.second.IsSequence() : field.second.IsScalar() || field.second.IsNull();
    if (!good) {
      return Error{ErrorKind::invalid, fmt::format("{}: {} has the wrong form, wanted {}", title, name,
                                                   name == "args" ? "a list of words" : "one value")};
    }
  }
  return {};
}

Result<WorkerSpec> parse_worker(const YAML::Node& worker, size_t number, const WorkerSurroundings& around) {
  std::string title = fmt::format("workers[{}]", number);
  if (!worker.IsMap()) return Error{ErrorKind::invalid, title + ": is no map of fields"};
  FULMAR_TRY(check_given_once(worker, title + ": "));
  FULMAR_TRY(check_fields(worker, title));
  const std::string name = worker["name"] ? worker["name"].as<std::string>() : "";
  if (name.empty()) return Error{ErrorKind::invalid, title + ": name is missing"};
  title = fmt::format("worker '{}'", name);
  ParsedSpec parsed = parse_worker_spec(json_of(worker), around);
  if (!parsed.problems.empty()) {
    return Error{ErrorKind::invalid, fmt::format("{}: {}", title, parsed.problems.front().message)};
  }
  parsed.spec.name = name;
  parsed.spec.configured = true;
  if (!worker["restart"]) parsed.spec.restart = RestartPolicy::on_failure;
  if (worker["args"]) parsed.spec.extra_arguments = worker["args"].as<std::vector<std::string>>();
  return std::move(parsed.spec);
}

// Notes where a document begins and keeps nothing of it.
class DocumentStart : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { line = mark.line + 1; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}

  int line = 0;  // from 1
};

// Returns the line, from 1, of the second document, or of text that belongs to none. Reads no further: for a
// closing bracket that nothing opened the library returns empty documents without end.
std::optional<int> line_of_second_document(const std::string& yaml) {
  std::istringstream text(yaml);
  YAML::Parser parser(text);
  DocumentStart start;
  if (!parser.HandleNextDocument(start) || !parser.HandleNextDocument(start)) return std::nullopt;
  return start.line;
}

Result<std::vector<WorkerSpec>> parse_tree(const YAML::Node& root, const WorkerSurroundings& around) {
  std::vector<WorkerSpec> specs;
  if (root.IsNull()) return specs;
  const bool known = root.IsMap() && std::all_of(root.begin(), root.end(), [](const auto& field) {
                       return field.first.template as<std::string>() == "workers";
                     });
  if (!known || (root["workers"] && !root["workers"].IsSequence() && !root["workers"].IsNull())) {
    return Error{ErrorKind::invalid, "wanted one list called workers"};
  }
  FULMAR_TRY(check_given_once(root, ""));
  for (size_t i = 0; root["workers"] && i < root["workers"].size(); ++i) {
    FULMAR_ASSIGN(WorkerSpec spec, parse_worker(root["workers"][i], i, around));
    if (std::any_of(specs.begin(), specs.end(), [&](const auto& other) { return other.name == spec.name; })) {
      return Error{ErrorKind::invalid, fmt::format("two workers are called '{}'", spec.name)};
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace

Result<std::vector<WorkerSpec>> parse_config(const std::string& yaml, const WorkerSurroundings& around) {
  try {
    const YAML::Node first = YAML::Load(yaml);
    if (const std::optional<int> line = line_of_second_document(yaml)) {
      return Error{ErrorKind::invalid, fmt::format("a second document begins in line {}; wanted one", *line)};
    }
    return parse_tree(first, around);
  } catch (const YAML::Exception& error) {
    return Error{ErrorKind::invalid,
                 fmt::format("line {}: {}", error.mark.is_null() ? 0 : error.mark.line + 1, error.msg)};
  }
}

Result<std::vector<WorkerSpec>> read_config(const std::string& path, const WorkerSurroundings& around) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  const auto text = read_file(path, kMostBytes);
  if (!text.ok()) return Error{text.error().kind, "configuration file " + text.error().text};
  auto specs = parse_config(*text, around);
  if (!specs.ok()) return Error{specs.error().kind, path + ": " + specs.error().text};
  return specs;
}

}  // namespace fulmar
