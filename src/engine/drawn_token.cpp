#include "engine/drawn_token.h"

namespace fulmar {

namespace {

Finish stopped_by_text(const Sequence& sequence) {
  return {.reason = FinishReason::stop, .stop_text = sequence.output.stop_text()};
}

}  // namespace

void take_token(Sequence& sequence, const SampledToken& drawn) {
  const Ask& ask = sequence.ask;
  if (drawn.stops && (!ask.mask || ask.mask->heeds(drawn.token))) {
    sequence.finish = Finish{.reason = FinishReason::stop, .stop_id = drawn.token};
    return;
  }
  sequence.drawn.push_back(drawn.token);
  if (ask.sampling.penalised()) sequence.memory.record(drawn.token, ask.sampling);
  if (ask.mask) ask.mask->accept(drawn.token);
  if (ask.mask && ask.mask->complete()) {
    sequence.finish = Finish{.reason = FinishReason::stop};
  } else if (static_cast<int64_t>(sequence.drawn.size()) >= ask.max_tokens) {
    sequence.finish = Finish{.reason = FinishReason::length};
  }
}

bool text_decides(const Sequence& sequence) { return !sequence.ask.stop.texts.empty(); }

std::string tell_token(Sequence& sequence, const SampledToken& drawn, const Tokenizer& tokenizer) {
  if (sequence.finish && sequence.finish->stop_id) return sequence.output.finish();
  const std::string_view bytes = tokenizer.bytes(drawn.token);
  TokenRecord record{drawn.token, std::string(bytes), drawn.logprob, drawn.top};
  std::string text = sequence.output.push(bytes, std::move(record));
  if (sequence.output.hit()) sequence.finish = stopped_by_text(sequence);
  if (sequence.finish) {
    text += sequence.output.finish();
    // The output's end may complete a match that an earlier possible match had kept open.
    if (sequence.output.hit()) sequence.finish = stopped_by_text(sequence);
  }
  return text;
}

size_t tokens_to_commit(const Sequence& sequence) {
  return sequence.output.hit() ? sequence.output.match_token() : sequence.drawn.size();
}

Event finished_event(Sequence& sequence, const Tokenizer& tokenizer) {
  Event event{.kind = Event::Kind::finished, .index = sequence.ask.index};
  const Finish finish = sequence.finish.value_or(Finish{.reason = FinishReason::cancelled});
  // What a paused row holds back comes once it is resumed.
  if (finish.reason != FinishReason::paused) event.text = sequence.output.finish();
  event.tokens = sequence.output.take_records();
  event.reason = finish.reason;
  event.stop_id = finish.stop_id;
  event.stop_text = finish.stop_text;
  event.error = finish.error;
  event.wrote_session = finish.wrote_session;
  event.usage = sequence.usage;
  event.usage.adapter = sequence.ask.adapter.label;
  event.usage.completion_tokens = static_cast<int64_t>(sequence.output.tokens_shown());
  event.prompt_scores = std::move(sequence.prompt_scores);
  for (TokenRecord& record : event.prompt_scores) record.bytes = tokenizer.bytes(record.token);
  event.embedding.assign(sequence.embedding_sum.begin(), sequence.embedding_sum.end());
  if (!sequence.embedding_sum.empty() && sequence.usage.prompt_tokens > 0) {
    for (float& value : event.embedding) value /= static_cast<float>(sequence.usage.prompt_tokens);
  }
  return event;
}

}  // namespace fulmar
