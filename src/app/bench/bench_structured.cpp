#include "app/bench/bench_structured.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "grammar/answer_form.h"
#include "net/json.h"
#include "net/json_writer.h"
#include "server/generate/answer_rules.h"

namespace fulmar {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kPrompt =
    "User: Book a table for four at the harbour on Friday evening.\n\nAssistant:";
// Strings are short, so that a model with made-up weights reaches their ends.
constexpr std::string_view kParameters = R"({"type":"object","additionalProperties":false,
"required":["restaurant_name","number_of_guests","seating_preference","contact","send_confirmation_email"],
"properties":{"restaurant_name":{"type":"string","maxLength":16},
"number_of_guests":{"type":"integer","minimum":1,"maximum":12},
"seating_preference":{"enum":["indoors","outdoors","by the window","no preference"]},
"contact":{"type":"object","additionalProperties":false,"required":["full_name","phone_number"],
"properties":{"full_name":{"type":"string","maxLength":16},"phone_number":{"type":"string","maxLength":12}}},
"send_confirmation_email":{"type":"boolean"}}})";
constexpr int64_t kLongestAnswer = 1000;

class Counter final : public Listener {
 public:
  explicit Counter(size_t rows) : remaining_(rows) {}

  void deliver(std::vector<Event> events) override {
    for (Event& event : events) {
      if (event.kind != Event::Kind::finished) continue;
      tokens_ += event.usage.completion_tokens;
      if (event.error && !error_) error_ = event.error;
      if (--remaining_ == 0) done_.set_value();
    }
  }
  // Waits for all rows; returns the number of their tokens.
  Result<int64_t> wait() {
    done_.get_future().wait();
    if (error_) return *error_;
    return tokens_;
  }

 private:
  size_t remaining_;
  int64_t tokens_ = 0;
  std::optional<Error> error_;
  std::promise<void> done_;
};

Result<std::shared_ptr<Constraint>> call_constraint(const Tokenizer& tokenizer, Whitespace whitespace) {
  FULMAR_ASSIGN(JsonValue parameters, parse_json(kParameters));
  const std::vector<CallableTool> tools{{"book_restaurant_table", std::move(parameters)}};
  FULMAR_ASSIGN(auto grammar,
                tool_call_form(AnswerStart::plain, tools, false, kTaggedCall, {.whitespace = whitespace}));
  FULMAR_ASSIGN(TokenTree tree, TokenTree::make(tokenizer));
  return std::make_shared<Constraint>(Automaton(std::move(grammar)),
                                      std::make_shared<const TokenTree>(std::move(tree)));
}

// An engine that answers with fast-forward or without.
class Answering {
 public:
  static Result<Answering> make(Model& model, const Tokenizer& tokenizer, int64_t sequences, bool forward) {
    const EngineOptions options{.slots = sequences,
                                .device_sessions = 0,
                                .prefix_slots = 0,
                                .prefixes = {.host_bytes = 0},
                                .fast_forward = forward};
    FULMAR_ASSIGN(auto engine, Engine::start(model, tokenizer, options, nullptr));
    return Answering(std::move(engine), tokenizer, sequences);
  }

  // Returns the tokens of one answer of each sequence; appends the tokens per second to `rates`.
  Result<int64_t> run(const std::shared_ptr<Constraint>& constraint, std::vector<double>& rates) {
    const auto counter = std::make_shared<Counter>(static_cast<size_t>(sequences_));
    Request request{.rows = {}, .listener = counter, .endpoint = "bench", .model = {}};
    for (int64_t i = 0; i < sequences_; i++) {
      Ask& ask = request.rows.emplace_back();
      ask.request_id = fmt::format("run-{}", runs_);
      ask.index = static_cast<int32_t>(i);
      ask.prompt = tokenizer_->encode(kPrompt);
      ask.sampling.seed = static_cast<uint64_t>(runs_ * sequences_ + i);
      ask.max_tokens = kLongestAnswer;
      ask.mask = make_mask(constraint, *tokenizer_, tokenizer_->eos());
      if (const auto eos = tokenizer_->eos()) ask.stop.ids.push_back(*eos);
    }
    runs_++;
    const auto start = Clock::now();
    FULMAR_TRY(engine_->submit(std::move(request)));
    FULMAR_ASSIGN(const int64_t tokens, counter->wait());
    rates.push_back(static_cast<double>(tokens) /
                    std::chrono::duration<double>(Clock::now() - start).count());
    return tokens;
  }

  EngineStats stats() const { return engine_->stats(); }

 private:
  Answering(std::unique_ptr<Engine> engine, const Tokenizer& tokenizer, int64_t sequences)
      : engine_(std::move(engine)), tokenizer_(&tokenizer), sequences_(sequences) {}

  std::unique_ptr<Engine> engine_;
  const Tokenizer* tokenizer_;
  int64_t sequences_;
  int64_t runs_ = 0;
};

Result<StructuredLine> line_of(Model& model, const Tokenizer& tokenizer, int64_t sequences,
                               Whitespace whitespace, const StructuredBenchOptions& options) {
  FULMAR_ASSIGN(Answering drawing, Answering::make(model, tokenizer, sequences, false));
  FULMAR_ASSIGN(Answering forwarding, Answering::make(model, tokenizer, sequences, true));
  FULMAR_ASSIGN(const auto constraint, call_constraint(tokenizer, whitespace));
  StructuredLine line{.sequences = sequences,
                      .whitespace = whitespace == Whitespace::none ? "none" : "default"};
  std::vector<double> drawn, forwarded;
  FULMAR_TRY(drawing.run(constraint, drawn));  // makes the masks
  FULMAR_TRY(forwarding.run(constraint, forwarded));
  drawn.clear(), forwarded.clear();
  const EngineStats drawn_before = drawing.stats(), before = forwarding.stats();
  const auto begin = Clock::now();
  do {
    FULMAR_TRY(drawing.run(constraint, drawn));
    FULMAR_ASSIGN(const int64_t tokens, forwarding.run(constraint, forwarded));
    line.tokens += tokens;
  } while (static_cast<int>(drawn.size()) < options.repeats &&
           std::chrono::duration<double>(Clock::now() - begin).count() < options.seconds);
  const auto runs = static_cast<double>(drawn.size());
  line.steps_drawn = static_cast<double>(drawing.stats().steps - drawn_before.steps) / runs;
  line.steps = static_cast<double>(forwarding.stats().steps - before.steps) / runs;
  line.forwarded = forwarding.stats().forwarded_tokens - before.forwarded_tokens;
  line.drawn_rate = spread_of(std::move(drawn));
  line.rate = spread_of(std::move(forwarded));
  return line;
}

}  // namespace

Result<std::vector<StructuredLine>> bench_structured(Model& model, const Tokenizer& tokenizer,
                                                     const StructuredBenchOptions& options) {
  std::vector<StructuredLine> lines;
  for (const int64_t sequences : options.sequences) {
    for (const Whitespace whitespace : {Whitespace::none, Whitespace::normal}) {
      FULMAR_ASSIGN(lines.emplace_back(), line_of(model, tokenizer, sequences, whitespace, options));
    }
  }
  return lines;
}

std::string structured_table(const std::vector<StructuredLine>& lines) {
  std::string table = fmt::format(
      "calls of a tool with many fixed names; tokens a second, median (least to most) of alternating runs\n"
      "{:>9} {:>10} {:>9} {:>14} {:>24} {:>24} {:>6}\n",
      "sequences", "whitespace", "forwarded", "steps", "without", "with", "gain");
  for (const StructuredLine& line : lines) {
    const auto rates = [](const Spread& spread) {
      return fmt::format("{:.0f} ({:.0f} to {:.0f})", spread.median, spread.least, spread.most);
    };
    const double share = static_cast<double>(line.forwarded) / static_cast<double>(line.tokens);
    table += fmt::format("{:>9} {:>10} {:>7.1f} % {:>14} {:>24} {:>24} {:>6.2f}\n", line.sequences,
                         line.whitespace, 100 * share,
                         fmt::format("{:.0f} -> {:.0f}", line.steps_drawn, line.steps),
                         rates(line.drawn_rate), rates(line.rate), line.rate.median / line.drawn_rate.median);
  }
  return table;
}

std::string structured_json(const std::vector<StructuredLine>& lines) {
  JsonWriter json;
  json.begin_object().key("lines").begin_array();
  for (const StructuredLine& line : lines) {
    json.begin_object()
        .member("sequences", line.sequences)
        .member("whitespace", line.whitespace)
        .member("tokens", line.tokens)
        .member("forwarded_tokens", line.forwarded)
        .member("steps_without", line.steps_drawn)
        .member("steps_with", line.steps)
        .member("tokens_per_second_without", line.drawn_rate.median)
        .member("tokens_per_second_with", line.rate.median)
        .end_object();
  }
  return json.end_array().end_object().take();
}

}  // namespace fulmar
