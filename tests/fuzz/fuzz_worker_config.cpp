// Configuration files of the control plane: workers with names of their own, or an error that says where.
#include <set>
#include <string>

#include "control/config_file.h"
#include "fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fulmar;
  const auto specs = parse_config(std::string(fuzz_text(data, size)), {});
  if (!specs.ok()) {
    expect(specs.error().kind == ErrorKind::invalid && !specs.error().text.empty());
    return 0;
  }
  std::set<std::string> names;
  for (const WorkerSpec& spec : *specs) {
    expect(!spec.name.empty() && names.insert(spec.name).second && !spec.host.empty());
    (void)serve_arguments(spec, {"sessions.db", "states"}, 8);
  }
  return 0;
}
