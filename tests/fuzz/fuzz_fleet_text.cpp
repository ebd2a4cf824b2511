// What workers and HAProxy answer the control plane: metrics are merged into lines that are samples, figures
// are read from them, and no command for HAProxy holds a line end or a second command. Input: the one after
// the other, parted by a NUL byte.
#include <cmath>
#include <string>

#include "control/haproxy.h"
#include "control/metrics_text.h"
#include "fuzz_input.h"

namespace {

using namespace fulmar;

void check_metrics(std::string_view text) {
  const std::string merged = merge_metrics({{"a\"\\\n", std::string(text)}, {"b", std::string(text)}});
  std::string_view rest = merged;
  while (!rest.empty()) {
    const std::string_view line = take_until(rest, "\n");
    expect(line.starts_with("# HELP ") || line.starts_with("# TYPE ") ||
           line.find("{worker=\"") != std::string_view::npos);
  }
  (void)metric_value(text, "m");
  const Buckets buckets = read_buckets(text, "m");
  (void)quantile_between({}, buckets, 0.95);
  (void)quantile_between(buckets, buckets, 0.5);
}

void check_haproxy(std::string_view answer) {
  const std::vector<KnownServer> known = read_servers(answer);
  std::vector<WantedServer> wanted{{"w1", "10.0.0.1", 80, false}};
  for (const KnownServer& server : known)
    wanted.push_back({server.name + "x", server.address, server.port, false});
  keep_missing(wanted, known);
  for (const std::string& command : haproxy_commands("workers", wanted, known)) {
    expect(command.find('\n') == std::string::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text = fuzz_text(data, size);
  check_metrics(take_until(text, std::string_view("\0", 1)));
  check_haproxy(text);
  return 0;
}
