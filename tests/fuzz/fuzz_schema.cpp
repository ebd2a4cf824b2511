// Compiles arbitrary JSON as a schema and walks what comes out: the input up to its first 0 byte is the
// schema, the rest chooses the bytes of a document. Aborts where a bound on work is broken, where the
// automaton is stuck, and where what it takes is no JSON (open names may come twice in one object).
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "grammar/answer_form.h"
#include "grammar/automaton.h"
#include "grammar/constraint.h"
#include "net/json.h"
#include "text/byte_tokenizer.h"

namespace {

using fulmar::Automaton;

// A place may be looked at once more than is counted, and the walk to the first frame is as long as it is.
constexpr uint32_t kMostOfAStep = 2 * Automaton::kMaxVisits;
constexpr size_t kMostBytes = 600;

// Bytes that may follow; each costs no more than it may.
std::string choices(Automaton& automaton, Automaton::State state) {
  std::string bytes;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (automaton.step(state, static_cast<uint8_t>(byte)) != Automaton::kDead) {
      bytes.push_back(static_cast<char>(byte));
    }
    if (automaton.cost(state, static_cast<uint8_t>(byte)) > kMostOfAStep) std::abort();
  }
  return bytes;
}

void walk(Automaton& automaton, std::string_view steering) {
  std::string text;
  Automaton::State state = automaton.start();
  for (size_t i = 0; i < kMostBytes && !automaton.final(state); ++i) {
    const std::string next = choices(automaton, state);
    if (next.empty()) std::abort();
    const uint8_t chosen =
        i < steering.size() ? static_cast<uint8_t>(steering[i]) : static_cast<uint8_t>(i * 7);
    const bool closed = automaton.accepting(state) && chosen % 4 == 0;
    if (closed) break;
    const char byte = next[chosen % next.size()];
    text.push_back(byte);
    state = automaton.step(state, static_cast<uint8_t>(byte));
  }
  if (automaton.accepting(state) && !fulmar::parse_json(text, {.doubled_names = true}).ok()) std::abort();
}

void mask(const std::shared_ptr<const fulmar::Grammar>& grammar) {
  static const fulmar::ByteTokenizer tokenizer;
  static const auto tree =
      std::make_shared<const fulmar::TokenTree>(std::move(*fulmar::TokenTree::make(tokenizer)));
  fulmar::ConstraintWalk steps(std::make_shared<fulmar::Constraint>(Automaton(grammar), tree), tokenizer, 0);
  for (int i = 0; i < 8 && !steps.complete(); ++i) {
    int32_t token = -1;
    int64_t others = 0;
    const auto forced = steps.forced();
    const auto allowed = steps.allowed();
    for (size_t id = 0; id < allowed.size() * 64; ++id) {
      if (!(allowed[id / 64] >> (id % 64) & 1)) continue;
      if (token < 0 && id > 0) token = static_cast<int32_t>(id);
      if (forced && static_cast<int32_t>(id) != *forced) others++;
    }
    if (forced && (token != *forced || others > 0)) std::abort();
    if (token < 0) return;
    steps.accept(token);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), input.size());
  const auto schema = fulmar::parse_json(input.substr(0, end));
  if (!schema.ok()) return 0;
  fulmar::Budget budget;
  const auto grammar = fulmar::json_schema_form(fulmar::AnswerStart::plain, *schema, {.budget = &budget});
  (void)fulmar::tool_call_form(fulmar::AnswerStart::plain, {{"f", *schema, false}}, false);
  if (!grammar.ok()) {
    if (grammar.error().text.empty()) std::abort();
    return 0;
  }
  Automaton automaton(*grammar);
  walk(automaton, input.substr(std::min(end + 1, input.size())));
  mask(*grammar);
  return 0;
}
