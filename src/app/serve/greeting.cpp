#include "app/serve/greeting.h"

#include <fmt/core.h>

#include <cstring>
#include <utility>

namespace fulmar {
namespace {

std::string row(const char* name, const std::string& text) { return fmt::format("  {:<9} {}\n", name, text); }

std::string memory_of(const Footing& footing) {
  const size_t slots = static_cast<size_t>(footing.slots + footing.kept) * footing.per_slot;
  return fmt::format(
      "weights {} MiB, workspace {} MiB, {} slots and {} for sessions and prompts, {} KiB each: {} MiB",
      footing.weights >> 20, footing.workspace >> 20, footing.slots, footing.kept, footing.per_slot >> 10,
      (footing.weights + footing.workspace + slots) >> 20);
}

std::string keys_of(const Greeting& facts) {
  std::string text;
  if (facts.password) text = "a password";
  if (!facts.keys_file.empty()) text += (text.empty() ? "" : " and ") + ("the keys of " + facts.keys_file);
  if (!text.empty()) return text;
  return facts.open_to_others
             ? "NONE: whoever reaches this address may use it; --password or --api-keys lock it"
             : "none: every program of this machine may ask";
}

// Returns an address that a browser on this machine can open, for one that stands for all of its addresses.
std::string openable(std::string address) {
  for (const auto& [all, near] : {std::pair("0.0.0.0:", "127.0.0.1:"), std::pair("[::]:", "[::1]:")}) {
    if (address.starts_with(all)) address.replace(0, std::strlen(all), near);
  }
  return address;
}

}  // namespace

std::string greeting(const Greeting& facts) {
  const bool locked = facts.password || !facts.keys_file.empty();
  const bool served = !facts.model.empty();
  std::string text = fmt::format("Fulmar {} serves {} on http://{}/\n\n", facts.version,
                                 served ? facts.model : "no model yet", facts.address);
  if (served) {
    text += row("model", facts.footing.architecture);
    text += row("device", fmt::format("{}, {} threads for HTTP", facts.footing.device, facts.io_threads));
    text += row("memory", memory_of(facts.footing));
  }
  text += row("sessions", facts.sessions.empty() ? "in memory: they go with the server" : facts.sessions);
  text += row("keys", keys_of(facts));
  if (locked && !facts.open_translate) {
    text += row("", "translate routes want one, too: ?key=KEY in the URL, or --open translate");
  }
  text += fmt::format("\n  open the page:  http://{}/\n", openable(facts.address));
  if (!served) return text + "  POST /loadmodel brings a model\n\n";
  return text + fmt::format("  or paste this:  curl -s http://{}/v1/chat/completions{} -d '{}'\n\n",
                            openable(facts.address), locked ? " -H 'Authorization: Bearer KEY'" : "",
                            R"({"messages":[{"role":"user","content":"What is 12 + 30?"}]})");
}

}  // namespace fulmar
