// One generation from request to last event: text, thinking, log-probabilities and figures as they come. Knows no page.
import { eventsOf } from "./sse.js";
import { ServerError } from "./http.js";

// Rates need at least this much time between first and last text: an answer that came in one burst says how the network
// delivered, not how fast the model is.
const SHORTEST_RATE_MS = 250;

// Text that is still growing. `changed` hears of each change; readers take what they need at their own pace.
export class LiveAnswer {
  text = "";
  thinking = "";
  tokens = 0;
  tops = [];  // [{token, logprob, tops: [[token, logprob]...]}]
  started = performance.now();
  first = null;
  last = null;
  thoughtUntil = null;
  finish = null;
  usage = null;
  forked = 0;  // tokens in the state that the answer started from, which nobody sent
  #readers = new Set();

  subscribe(reader) {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }

  changed() {
    for (const reader of this.#readers) reader();
  }

  take(choice, now = performance.now()) {
    const delta = choice.delta ?? {};
    const text = choice.text ?? delta.content ?? "";
    if (choice.finish_reason) this.finish = choice.finish_reason;
    this.takeTops(choice.logprobs);
    if (!text && !delta.reasoning_content) return;
    this.first ??= now;
    this.last = now;
    this.tokens += 1;
    if (delta.reasoning_content) this.thinking += delta.reasoning_content;
    if (text && this.thinking && this.thoughtUntil === null) this.thoughtUntil = now;
    this.text += text;
    this.changed();
  }

  takeTops(logprobs) {
    for (const entry of logprobs?.content ?? []) {
      this.tops.push({ token: entry.token, logprob: entry.logprob, tops: entry.top_logprobs.map((top) => [top.token, top.logprob]) });
    }
  }

  // What is worth keeping: milliseconds, tokens, tokens per second (null where it cannot be told).
  figures() {
    const tokens = this.usage?.completion_tokens ?? this.tokens;
    const span = this.first === null ? 0 : this.last - this.first;
    const cached = this.usage?.prompt_tokens_details?.cached_tokens ?? 0;
    const prompt = this.usage?.prompt_tokens;
    const { accepted_prediction_tokens: accepted, rejected_prediction_tokens: rejected = 0 } = this.usage?.completion_tokens_details ?? {};
    return {
      tokens,
      first: this.first === null ? null : this.first - this.started,
      rate: tokens > 1 && span >= SHORTEST_RATE_MS ? ((tokens - 1) * 1000) / span : null,
      thought: this.thinking ? (this.thoughtUntil ?? this.last) - this.first : null,
      fed: prompt === undefined ? null : prompt - cached,
      reused: this.forked + cached,
      drafted: accepted === undefined ? null : { accepted, of: accepted + rejected },
    };
  }
}

// Streams `body` to `path` into `live`. Resolves with the request's id when the last event came; rejects with CutStream,
// ServerError or AbortError, and `live` keeps what had come.
export async function generate(server, path, body, live, { signal, onStart } = {}) {
  live.started = performance.now();
  const response = await server.send(path, {
    method: "POST", signal, json: { ...body, stream: true, stream_options: { include_usage: true } },
  });
  const id = response.headers.get("X-Request-Id");
  onStart?.(id);
  for await (const event of eventsOf(response)) {
    if (event.error) throw new ServerError(event.error.message ?? String(event.error), 500, event.error.code);
    if (event.usage) live.usage = event.usage;
    for (const choice of event.choices ?? []) live.take(choice);
  }
  live.changed();
  return id;
}
