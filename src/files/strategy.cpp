#include "files/strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace fulmar {

namespace {

// A name's meaning elsewhere: the nearest of our quantisations.
struct Elsewhere {
  std::string_view name;
  std::string_view ours;
};

constexpr std::array<Elsewhere, 8> kElsewhere = {{{"fp6", "q6_k"},
                                                  {"fp5", "q5_k"},
                                                  {"fp5c", "q5_k"},
                                                  {"bnb_nf4", "nf4"},
                                                  {"bnb_int4", "nf4"},
                                                  {"quant", "nf4"},
                                                  {"fp16i8", "int8"},
                                                  {"bf16i8", "int8"}}};
constexpr std::array<std::string_view, 3> kStored = {"fp16", "bf16", "None"};

// The part of a strategy for one kind of mix.
struct MixPart {
  std::optional<Quantisation> quantisation;
  bool exact = true;
};

std::optional<MixPart> part_named(std::string_view name) {
  if (std::find(kStored.begin(), kStored.end(), name) != kStored.end()) return MixPart{};
  if (const auto own = quantisation_named(name)) return MixPart{own, true};
  const auto found =
      std::find_if(kElsewhere.begin(), kElsewhere.end(), [&](const Elsewhere& e) { return e.name == name; });
  if (found == kElsewhere.end()) return std::nullopt;
  return MixPart{quantisation_named(found->ours), false};
}

std::string part_text(const std::optional<Quantisation>& quantisation) {
  if (!quantisation) return "as stored";
  return fmt::format("{} ({:.1f} bits a weight)", quantisation->name, bits_of(*quantisation));
}

}  // namespace

Result<Strategy> strategy_named(std::string_view name) {
  constexpr std::string_view kTime = "attn_", kChannel = "_ffn_";
  Strategy strategy{.name = std::string(name), .time_mix = {}, .channel_mix = {}};
  if (name.empty()) return strategy;
  const auto unknown = [said = name] {
    return Error{ErrorKind::unsupported, fmt::format("'{}' names no way to store weights; wanted one of {}",
                                                     said.substr(0, 64), strategy_names())};
  };
  strategy.stored_head = name.ends_with(kStoredHead);
  if (strategy.stored_head) name.remove_suffix(kStoredHead.size());
  const size_t middle = name.starts_with(kTime) ? name.find(kChannel) : std::string_view::npos;
  const bool mixed = middle != std::string_view::npos;
  const auto first = part_named(mixed ? name.substr(kTime.size(), middle - kTime.size()) : name);
  const auto second = mixed ? part_named(name.substr(middle + kChannel.size())) : first;
  if (!first || !second) return unknown();
  strategy.time_mix = first->quantisation;
  strategy.channel_mix = second->quantisation;
  strategy.exact = first->exact && second->exact;
  if (strategy.stored_head && !strategy.quantises()) return unknown();
  return strategy;
}

std::string strategy_names() {
  std::string names;
  const auto add = [&](std::string_view name) { names += fmt::format("{}, ", name); };
  for (const std::string_view name : kStored) add(name);
  for (const Quantisation& quantisation : all_quantisations()) add(quantisation.name);
  for (const Elsewhere& elsewhere : kElsewhere) add(elsewhere.name);
  return names + fmt::format("attn_KIND_ffn_KIND of any two; with {} the head stays as it is", kStoredHead);
}

std::string describe(const Strategy& strategy) {
  if (!strategy.quantises()) return "as stored";
  const std::string time = part_text(strategy.time_mix), channel = part_text(strategy.channel_mix);
  return fmt::format("{}{}{}", time == channel ? time : fmt::format("attention {}, ffn {}", time, channel),
                     strategy.exact ? "" : fmt::format(", the nearest to {}", strategy.name),
                     strategy.stored_head ? ", the head as stored" : "");
}

QuantiseOptions options_of(const Strategy& strategy, bool keep_head) {
  QuantiseOptions options{
      .time_mix = strategy.time_mix, .channel_mix = strategy.channel_mix, .head = {}, .progress = {}};
  if (strategy.quantises() && !keep_head && !strategy.stored_head) options.head = head_quantisation();
  return options;
}

double bits_of(const Quantisation& quantisation, int64_t cols) {
  const Format& format = format_of(quantisation.dtype);
  const double codes = 8 * static_cast<double>(format.bytes) / static_cast<double>(format.block);
  const int64_t group = quantisation.group == kWholeRow ? cols : quantisation.group;
  return group == 0 ? codes : codes + 8 * sizeof(float) / static_cast<double>(group);
}

std::string few_bits_advice(const QuantiseOptions& options, int64_t parameters) {
  constexpr int64_t kLargeEnough = 3'000'000'000;
  constexpr double kFewBits = 5.25;
  const auto few = [&](const std::optional<Quantisation>& q) { return q && bits_of(*q) < kFewBits; };
  if (parameters >= kLargeEnough || (!few(options.time_mix) && !few(options.channel_mix))) return {};
  return fmt::format(
      "{:.2g} billion parameters are few for so few bits a weight: below 3 billion models lose skills that "
      "perplexity does not show (a 1.5B lost half of its score in mathematics at 4 bits, a 7.2B 1.7 points); "
      "q8_0 or q6_k are safe, `fulmar eval --against` measures",
      static_cast<double>(parameters) / 1e9);
}

}  // namespace fulmar
