#include "app/eval/schema_judge.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <optional>

#include "grammar/answer_form.h"
#include "grammar/constraint.h"
#include "net/json.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

// The id that ends an answer if the vocabulary has none.
constexpr int32_t kEndToken = 0;
constexpr std::array<std::string_view, 5> kStatusNames = {"pass", "fail", "refused", "crash", "time-out"};

// Returns the microseconds of CPU time of this thread.
double cpu_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

bool has_bit(std::span<const uint64_t> bits, int32_t id) {
  const auto word = static_cast<size_t>(id) / 64;
  return word < bits.size() && (bits[word] >> (static_cast<size_t>(id) % 64) & 1) != 0;
}

// A constraint and what walking it needs.
struct Feeder {
  std::shared_ptr<Constraint> constraint;
  const Tokenizer& tokenizer;
  int32_t end;

  // Feeds a text to the constraint. `times`: of its masks; null: not wanted.
  SchemaVerdict::Fed feed(const std::string& text, std::vector<double>* times) const {
    ConstraintWalk walk(constraint, tokenizer, end);
    SchemaVerdict::Fed fed;
    const auto takes = [&](int32_t token) {
      const double before = cpu_time();
      const bool allowed = has_bit(walk.allowed(), token);
      if (times) times->push_back(cpu_time() - before);
      return allowed;
    };
    for (const int32_t token : tokenizer.encode(text)) {
      if (!takes(token)) return fed;
      walk.accept(token);
      fed.bytes += tokenizer.bytes(token).size();
    }
    fed.whole = walk.complete() || takes(end);
    return fed;
  }
};

void write_fed(JsonWriter& json, std::string_view name, const SchemaVerdict::Fed& fed) {
  json.key(name);
  if (fed.whole) {
    json.value(true);
  } else {
    json.value(fed.bytes);
  }
}

// Reads a Fed from JSON: true is the whole text; a number: the bytes before the token that was refused.
SchemaVerdict::Fed read_fed(const JsonValue& test, std::string_view name) {
  const JsonValue* value = test.find(name);
  if (!value) return {};
  if (value->is_bool()) return {.whole = value->as_bool()};
  const auto bytes = lenient_int(*value);
  return {.bytes = static_cast<size_t>(std::max<int64_t>(bytes.value_or(0), 0))};
}

}  // namespace

size_t SchemaVerdict::invalid_taken() const {
  return static_cast<size_t>(std::count_if(tests.begin(), tests.end(), [](const Test& test) {
    return !test.valid && (test.compact.whole || test.spaced.whole);
  }));
}

std::string_view name_of(SchemaVerdict::Status status) { return kStatusNames[static_cast<size_t>(status)]; }

SchemaVerdict judge_schema(const SchemaCase& one, const Tokenizer& tokenizer,
                           const std::shared_ptr<const TokenTree>& tree) {
  using Verdict = SchemaVerdict::Status;
  SchemaVerdict verdict{.id = one.id};
  const auto schema = parse_json(one.schema);
  const double before = cpu_time();
  const FormOptions options{.whitespace = Whitespace::normal, .unlisted = true};
  auto grammar = schema ? json_schema_form(AnswerStart::plain, *schema, options) : schema.error();
  if (!grammar) {
    verdict.status = Verdict::refused;
    verdict.reason = grammar.error().text;
    verdict.compile = cpu_time() - before;
    return verdict;
  }
  const Feeder feeder{std::make_shared<Constraint>(Automaton(*grammar), tree), tokenizer,
                      tokenizer.eos().value_or(kEndToken)};
  verdict.compile = cpu_time() - before;
  size_t work = 0;
  feeder.constraint->allowed(0, work);
  verdict.first_mask = cpu_time() - before - verdict.compile;
  for (const SchemaTest& test : one.tests) {
    SchemaVerdict::Test result{.valid = test.valid};
    result.compact = feeder.feed(test.compact, &verdict.masks);
    result.spaced = test.spaced == test.compact ? result.compact : feeder.feed(test.spaced, nullptr);
    if (!result.right()) verdict.status = Verdict::fail;
    verdict.tests.push_back(result);
  }
  return verdict;
}

std::string json_of(const SchemaVerdict& verdict, bool with_masks) {
  JsonWriter json;
  json.begin_object().member("id", verdict.id).member("status", name_of(verdict.status));
  if (!verdict.reason.empty()) json.member("reason", verdict.reason);
  json.key("tests").begin_array();
  for (const auto& test : verdict.tests) {
    json.begin_object().member("valid", test.valid).member("right", test.right());
    write_fed(json, "compact", test.compact);
    write_fed(json, "spaced", test.spaced);
    json.end_object();
  }
  json.end_array().member("compile_us", verdict.compile).member("first_mask_us", verdict.first_mask);
  if (with_masks) {
    json.key("masks_us").begin_array();
    for (const double time : verdict.masks) json.value(static_cast<float>(time));
    json.end_array();
  }
  return json.end_object().take();
}

std::optional<SchemaVerdict> verdict_of(std::string_view text) {
  const auto json = parse_json(text);
  if (!json || !json->find("id") || !json->find("status") || !json->find("tests")) return std::nullopt;
  SchemaVerdict verdict{.id = json->find("id")->as_string()};
  const auto named = std::find(kStatusNames.begin(), kStatusNames.end(), json->find("status")->as_string());
  if (named == kStatusNames.end()) return std::nullopt;
  verdict.status = static_cast<SchemaVerdict::Status>(named - kStatusNames.begin());
  if (const JsonValue* reason = json->find("reason")) verdict.reason = reason->as_string();
  for (const JsonValue& test : json->find("tests")->as_array()) {
    const JsonValue* valid = test.find("valid");
    verdict.tests.push_back({valid && valid->as_bool(), read_fed(test, "compact"), read_fed(test, "spaced")});
  }
  if (const JsonValue* time = json->find("compile_us")) verdict.compile = time->as_double();
  if (const JsonValue* time = json->find("first_mask_us")) verdict.first_mask = time->as_double();
  if (const JsonValue* masks = json->find("masks_us")) {
    for (const JsonValue& time : masks->as_array()) verdict.masks.push_back(time.as_double());
  }
  return verdict;
}

}  // namespace fulmar
