// Start requests of the control plane: a description of a worker, or the fields that are wrong with it. Files
// are looked for in a folder that does not exist, so that nothing outside can be named.
#include <string>
#include <string_view>

#include "control/worker_spec.h"
#include "fuzz_input.h"
#include "net/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fulmar;
  JsonLimits limits;
  limits.max_depth = 32;
  limits.max_values = 10'000;
  const auto body = parse_json(fuzz_text(data, size), limits);
  if (!body.ok()) return 0;
  ParsedSpec parsed = parse_worker_spec(*body, {.models_dir = "/nonexistent"});
  expect(!parsed.problems.empty());
  const bool nameless = body->find("") != nullptr;  // a field that is refused like others that nobody knows
  for (const FieldProblem& problem : parsed.problems)
    expect((nameless || !problem.field.empty()) && !problem.message.empty());
  expect(parse_json(problems_json(parsed.problems)).ok());
  const WorkerSpec& spec = parsed.spec;
  expect(spec.port >= 0 && spec.port <= 65535 && spec.max_batch_size >= 1);
  for (const std::string& argument : serve_arguments(spec, {"sessions.db", "states"}, 8)) {
    expect(argument.find('\0') == std::string::npos);
  }
  JsonWriter json;
  write_spec(json, spec);
  expect(parse_json(json.take()).ok());
  return 0;
}
