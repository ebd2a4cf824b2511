// Draws documents under schemas: reads lines {"schema":...,"count":n,"seed":n,"unlisted":bool} and answers
// each with n lines of a document each, or one line that begins with "refused: ". A document that never ends
// stops the program, as an order that is no JSON does; with --keep-going the line is "unfinished" or
// "refused: ". What draws has random weights for bytes, others for each document, and sees nothing but the
// automaton, so that documents go where no model would.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>

#include "grammar/answer_form.h"
#include "grammar/automaton.h"
#include "net/json.h"

namespace fulmar {
namespace {

constexpr size_t kPatience = 120;  // bytes after which a shortest way to the end is taken, if one is near
constexpr size_t kNear = 20'000;   // states
constexpr size_t kLongest = 50'000;
constexpr int kTries = 5;
constexpr int kFailedSearches = 60;  // for ways to the end, by all documents of a schema

using Weights = std::array<double, 256>;

Weights random_weights(std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, 2);
  Weights weights{};
  for (double& weight : weights) weight = std::exp(normal(random));
  return weights;
}

bool closes(unsigned byte) { return byte == '"' || byte == ']' || byte == '}'; }

// The bytes of a shortest way from a state to one that may end: breadth first. Nothing: none is near.
std::optional<std::string> way_out(Automaton& automaton, Automaton::State from) {
  struct Step {
    Automaton::State before;
    char byte;
  };
  std::unordered_map<Automaton::State, Step> steps{{from, {from, 0}}};
  std::deque<Automaton::State> open{from};
  while (!open.empty() && steps.size() < kNear) {
    const Automaton::State state = open.front();
    open.pop_front();
    if (automaton.accepting(state)) {
      std::string way;
      for (auto at = state; at != from; at = steps.at(at).before) way.insert(way.begin(), steps.at(at).byte);
      return way;
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
      const Automaton::State next = automaton.step(state, static_cast<uint8_t>(byte));
      if (next != Automaton::kDead && steps.try_emplace(next, Step{state, static_cast<char>(byte)}).second) {
        open.push_back(next);
      }
    }
  }
  return std::nullopt;
}

// Nothing: it became too long. Takes its searches that found no end out of `failures_left`: where one is far,
// each costs seconds.
std::optional<std::string> draw(Automaton& automaton, std::mt19937_64& random, int& failures_left) {
  const Weights weights = random_weights(random);
  std::bernoulli_distribution ends(0.3);
  std::string text;
  Automaton::State state = automaton.start();
  while (text.size() < kLongest) {
    const bool patient = text.size() < kPatience;
    if (!text.empty() && text.size() % kPatience == 0 && failures_left > 0) {
      if (const auto way = way_out(automaton, state)) return text + *way;
      --failures_left;
    }
    if (automaton.final(state) || (automaton.accepting(state) && (!patient || ends(random)))) return text;
    Weights allowed{};
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool blank = text.empty() && (byte == ' ' || byte == '\n');
      if (blank || automaton.step(state, static_cast<uint8_t>(byte)) == Automaton::kDead) continue;
      allowed[byte] = weights[byte] * (!patient && closes(byte) ? 1e6 : 1);
    }
    std::discrete_distribution<unsigned> choice(allowed.begin(), allowed.end());
    const unsigned byte = choice(random);
    if (allowed[byte] <= 0) return std::nullopt;  // stuck: all weights were 0
    text.push_back(static_cast<char>(byte));
    state = automaton.step(state, static_cast<uint8_t>(byte));
  }
  return std::nullopt;
}

// False where a document never ended.
bool answer(const JsonValue& order, bool keep_going) {
  const JsonValue* unlisted = order.find("unlisted");
  const FormOptions options{.unlisted = unlisted && unlisted->as_bool()};
  const auto grammar = json_schema_form(AnswerStart::plain, *order.find("schema"), options);
  if (!grammar) {
    std::string why = grammar.error().text;
    std::replace(why.begin(), why.end(), '\n', ' ');
    std::cout << "refused: " << why << std::endl;
    return true;
  }
  Automaton automaton(*grammar);
  std::mt19937_64 random(static_cast<uint64_t>(order.find("seed")->as_int64()));
  int failures_left = kFailedSearches;
  for (int64_t i = 0; i < order.find("count")->as_int64(); ++i) {
    std::optional<std::string> text;
    for (int tries = 0; tries < kTries && !text; ++tries) text = draw(automaton, random, failures_left);
    if (!text && !keep_going) return false;
    std::cout << text.value_or("unfinished") << "\n";
  }
  std::cout.flush();
  return true;
}

}  // namespace
}  // namespace fulmar

int main(int argc, char** argv) {
  const bool keep_going = argc > 1 && std::string_view(argv[1]) == "--keep-going";
  for (std::string line; std::getline(std::cin, line);) {
    const auto order = fulmar::parse_json(line);
    if (!order && keep_going) {  // as a number that no reader takes
      std::cout << "refused: " << order.error().text << std::endl;
      continue;
    }
    if (!order || !order->find("schema") || !order->find("count") || !order->find("seed")) {
      std::cerr << "no order: " << line.substr(0, 200) << "\n";
      return 2;
    }
    if (fulmar::answer(*order, keep_going)) continue;
    std::cerr << "no document ended within its length: " << line.substr(0, 200) << "\n";
    return 1;
  }
  return 0;
}
