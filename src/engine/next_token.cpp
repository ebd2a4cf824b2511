#include "engine/next_token.h"

#include <algorithm>
#include <span>

namespace fulmar {

namespace {

bool has(std::span<const int32_t> ids, int32_t token) {
  return std::find(ids.begin(), ids.end(), token) != ids.end();
}

bool tells_logprobs(const SamplingParams& params) { return params.top_logprobs >= 0; }

}  // namespace

std::optional<int32_t> forced_token(const Ask& ask, TokenMask& mask, uint64_t position) {
  const auto token = mask.forced();
  if (!token) return std::nullopt;
  const auto& biases = ask.sampling.logit_bias;
  const bool biased =
      std::any_of(biases.begin(), biases.end(), [&](const auto& one) { return one.first == *token; });
  const bool banned = has(ask.sampling.banned, *token) || has(banned_at(ask, position), *token);
  if (biased || banned || has(ask.stop.ids, *token)) return std::nullopt;
  return token;
}

std::optional<int32_t> forwarded_token(const Sequence& sequence) {
  const Ask& ask = sequence.ask;
  if (!ask.mask || sequence.finish || tells_logprobs(ask.sampling)) return std::nullopt;
  return forced_token(ask, *ask.mask, sequence.drawn.size());
}

void mask_row(SampleRow& row, const Ask& ask, TokenMask& mask) {
  if (const auto forced = forced_token(ask, mask, row.position)) row.given = *forced;
  if (row.given < 0 || tells_logprobs(*row.params)) row.allowed = mask.allowed();
}

bool is_at_hand(const SampleRow& row, const Ask& ask, TokenMask& mask) {
  return mask.ready() || (!tells_logprobs(*row.params) && forced_token(ask, mask, row.position));
}

}  // namespace fulmar
