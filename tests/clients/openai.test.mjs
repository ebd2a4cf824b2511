// The official OpenAI client against a running server: BASE_URL=http://host:port node --test openai.test.mjs
// Says nothing of what the model answers, only of how.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { flakyProxy, guarded } from "./support.mjs";

const base = process.env.BASE_URL;
if (!base) throw new Error("BASE_URL is not set; wanted http://host:port of a running Fulmar server");
const apiKey = process.env.API_KEY || "none";
const ask = [{ role: "user", content: "What is 12 + 30?" }];

for (const prefix of ["/v1", "/openai/v1"]) {
  const client = new OpenAI({ baseURL: base + prefix, apiKey, maxRetries: 0 });
  const model = (await client.models.list()).data[0].id;
  const on = (name, body) => test(`${prefix} ${name}`, { timeout: 60_000 }, body);

  on("models", async () => {
    const one = await client.models.retrieve(model);
    assert.equal(one.id, model);
    assert.equal(one.object, "model");
    await assert.rejects(client.models.retrieve("no-such-model"), OpenAI.NotFoundError);
  });

  on("chat", async () => {
    const answer = await client.chat.completions.create({ model, messages: ask, max_tokens: 8 });
    assert.equal(answer.object, "chat.completion");
    assert.match(answer.id, /^chatcmpl-/);
    assert.equal(answer.choices[0].message.role, "assistant");
    assert.equal(typeof answer.choices[0].message.content, "string");
    assert.ok(["stop", "length"].includes(answer.choices[0].finish_reason));
    const { prompt_tokens, completion_tokens, total_tokens } = answer.usage;
    assert.ok(prompt_tokens > 0 && completion_tokens <= 8);
    assert.equal(total_tokens, prompt_tokens + completion_tokens);
  });

  on("chat, streamed, equals the whole answer", async () => {
    const request = { model, messages: ask, max_tokens: 12, temperature: 0, n: 2, seed: 7 };
    const whole = await client.chat.completions.create(request);
    const texts = ["", ""];
    const reasons = [[], []];
    let usage = null;
    const stream = await client.chat.completions.create(
      { ...request, stream: true, stream_options: { include_usage: true } });
    for await (const chunk of stream) {
      assert.equal(chunk.object, "chat.completion.chunk");
      if (chunk.usage) usage = chunk.usage;
      for (const choice of chunk.choices) {
        texts[choice.index] += choice.delta.content ?? "";
        if (choice.finish_reason) reasons[choice.index].push(choice.finish_reason);
      }
    }
    assert.deepEqual(texts, whole.choices.map((choice) => choice.message.content));
    assert.deepEqual(reasons, whole.choices.map((choice) => [choice.finish_reason]));
    assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
  });

  on("chat stream without usage", async () => {
    const stream = await client.chat.completions.create({ model, messages: ask, max_tokens: 4, stream: true });
    for await (const chunk of stream) {
      assert.equal(chunk.choices.length, 1);
      assert.equal(chunk.usage, undefined);
    }
  });

  on("chat log-probabilities", async () => {
    const answer = await client.chat.completions.create(
      { model, messages: ask, max_tokens: 4, logprobs: true, top_logprobs: 3 });
    const { logprobs } = answer.choices[0];
    assert.equal(logprobs.content.length, answer.usage.completion_tokens);
    for (const entry of logprobs.content) {
      assert.ok(entry.logprob <= 1e-6);
      assert.ok(entry.top_logprobs.length <= 3);
      assert.ok(Array.isArray(entry.bytes));
    }
  });

  on("abort in mid-stream", async () => {
    const stream = await client.chat.completions.create(
      { model, messages: ask, max_tokens: 4096, stream: true, ignore_eos: true });
    let chunks = 0;
    for await (const _ of stream) {
      if (++chunks === 3) stream.controller.abort();
    }
    assert.ok(chunks >= 3);
    for (let wait = 0; ; ++wait) {
      const { stats } = await (await fetch(`${base}/v1/queue/status`)).json();
      if (stats.cancelled_requests > 0) break;
      assert.ok(wait < 100, "the server has not noticed the abort");
      await new Promise((wake) => setTimeout(wake, 50));
    }
  });

  on("errors", async () => {
    const rejected = async (change, code) => {
      const error = await client.chat.completions.create({ model, messages: ask, ...change }).catch((e) => e);
      assert.ok(error instanceof OpenAI.BadRequestError, String(error));
      assert.equal(error.code, code);
      assert.equal(error.type, "invalid_request_error");
    };
    await rejected({ temperature: -1 }, "invalid_value");
    await rejected({ messages: [] }, "missing_input");
    await rejected({ response_format: { type: "no_such_format" } }, "unsupported_parameter");
  });
}

const client = new OpenAI({ baseURL: `${base}/v1`, apiKey, maxRetries: 0 });

test("completion", { timeout: 60_000 }, async () => {
  const answer = await client.completions.create(
    { model: "rwkv", prompt: ["a", "b"], n: 2, max_tokens: 4, logprobs: 2, echo: true });
  assert.equal(answer.object, "text_completion");
  assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1, 2, 3]);
  assert.ok(answer.choices[3].text.startsWith("b"));
  const { tokens, token_logprobs, top_logprobs, text_offset } = answer.choices[0].logprobs;
  assert.equal(tokens.length, token_logprobs.length);
  assert.equal(tokens.length, top_logprobs.length);
  assert.equal(tokens.length, text_offset.length);
});

test("completion, streamed, exact length", { timeout: 60_000 }, async () => {
  const stream = await client.completions.create(
    { model: "rwkv", prompt: "once", max_tokens: 6, temperature: 0, stream: true, ignore_eos: true,
      stream_options: { include_usage: true } });
  let reason = null;
  let usage = null;
  for await (const chunk of stream) {
    if (chunk.usage) usage = chunk.usage;
    reason = chunk.choices[0]?.finish_reason ?? reason;
  }
  assert.equal(reason, "length");
  assert.equal(usage.completion_tokens, 6);
});

const add = { type: "function", function: { name: "add", description: "Adds two numbers", parameters: {
  type: "object", properties: { a: { type: "integer" }, b: { type: "integer" } }, required: ["a", "b"] } } };

test("tools, to the end of the conversation", { timeout: 60_000 }, async () => {
  const asked = await client.chat.completions.create(
    { model: "rwkv", messages: ask, tools: [add], tool_choice: "required", max_tokens: 200, temperature: 0 });
  const { message, finish_reason } = asked.choices[0];
  assert.equal(finish_reason, "tool_calls");
  const { a, b } = JSON.parse(message.tool_calls[0].function.arguments);
  assert.ok(Number.isInteger(a) && Number.isInteger(b));
  const told = await client.chat.completions.create({ model: "rwkv", max_tokens: 16, temperature: 0, tools: [add],
    messages: [...ask, message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: String(a + b) }] });
  assert.equal(told.choices[0].message.role, "assistant");
});

test("responses: a turn, its items, its tokens", { timeout: 60_000 }, async () => {
  const input = "What is 12 + 30?";
  const first = await client.responses.create({ model: "rwkv", input, temperature: 0, metadata: { k: "v" } });
  assert.match(first.output_text, /42/);
  assert.deepEqual(first.metadata, { k: "v" });
  const items = await client.responses.inputItems.list(first.id);
  assert.equal(items.data[0].content[0].text, input);
  const { input_tokens } = await client.responses.inputTokens.count({ model: "rwkv", input });
  assert.equal(input_tokens, first.usage.input_tokens);
  const next = await client.responses.create({ model: "rwkv", input: "And 1 + 1?", previous_response_id: first.id });
  assert.equal(next.previous_response_id, first.id);
});

test("responses in the background: polled, and cancelled", { timeout: 60_000 }, async () => {
  const started = await client.responses.create({ model: "rwkv", input: "What is 12 + 30?", background: true, temperature: 0 });
  assert.equal(started.status, "queued");
  const settled = async (id) => {
    for (let wait = 0; wait < 400; ++wait) {
      const now = await client.responses.retrieve(id);
      if (now.status !== "queued" && now.status !== "in_progress") return now;
      await new Promise((wake) => setTimeout(wake, 50));
    }
    throw new Error("the response does not end");
  };
  assert.match((await settled(started.id)).output_text, /42/);
  const long = await client.responses.create(
    { model: "rwkv", input: "Count from 1 to 900", background: true, max_output_tokens: 60000, ignore_eos: true });
  await client.responses.cancel(long.id);
  assert.equal((await settled(long.id)).status, "cancelled");
});

test("wrong key", { skip: !guarded }, async () => {
  const stranger = new OpenAI({ baseURL: `${base}/v1`, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(stranger.chat.completions.create({ model: "rwkv", messages: ask }), OpenAI.AuthenticationError);
});

test("retry", { timeout: 60_000 }, async () => {
  const proxy = await flakyProxy();
  const patient = new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey, maxRetries: 2 });
  const answer = await patient.chat.completions.create({ model: "rwkv", messages: ask, max_tokens: 8 });
  assert.equal(answer.object, "chat.completion");
  assert.equal(proxy.refused(), 1);
  proxy.close();
});
