// Anthropic's own client: BASE_URL=http://host:port node --test anthropic.test.mjs
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { apiKey, base, expectCancelled, flakyProxy, guarded, model, on, question } from "./support.mjs";

const client = new Anthropic({ baseURL: base, apiKey, maxRetries: 0 });
const ask = { model, max_tokens: 16, temperature: 0, messages: [{ role: "user", content: question }] };
const add = {
  name: "add", description: "Adds two numbers",
  input_schema: { type: "object", properties: { a: { type: "integer" }, b: { type: "integer" } }, required: ["a", "b"] },
};

on("conversation", async () => {
  const answer = await client.messages.create(ask);
  assert.match(answer.id, /^msg_/);
  assert.equal(answer.role, "assistant");
  assert.equal(answer.content[0].type, "text");
  assert.match(answer.content[0].text, /42/);
  assert.equal(answer.stop_reason, "end_turn");
  assert.ok(answer.usage.input_tokens > 0 && answer.usage.output_tokens > 0);
  const next = await client.messages.create({
    ...ask, system: "Be brief.",
    messages: [...ask.messages, { role: "assistant", content: answer.content }, { role: "user", content: "And 1 + 1?" }],
  });
  assert.equal(next.type, "message");
});

on("stream equals the whole answer", async () => {
  const whole = await client.messages.create(ask);
  const stream = client.messages.stream(ask);
  let text = "";
  stream.on("text", (delta) => { text += delta; });
  const last = await stream.finalMessage();
  assert.equal(text, whole.content[0].text);
  assert.equal(last.content[0].text, whole.content[0].text);
  assert.equal(last.usage.output_tokens, whole.usage.output_tokens);
});

on("stop sequences", async () => {
  const answer = await client.messages.create({ ...ask, stop_sequences: ["2"] });
  assert.equal(answer.stop_reason, "stop_sequence");
  assert.equal(answer.stop_sequence, "2");
});

on("thinking", async () => {
  const answer = await client.messages.create(
    { ...ask, max_tokens: 2048, thinking: { type: "enabled", budget_tokens: 1024 } });
  assert.equal(answer.content[0].type, "thinking");
  assert.ok(answer.content[0].thinking.length > 0);
});

on("tools", async () => {
  const asked = await client.messages.create({ ...ask, max_tokens: 200, tools: [add], tool_choice: { type: "any" } });
  const call = asked.content.find((block) => block.type === "tool_use");
  assert.equal(asked.stop_reason, "tool_use");
  assert.equal(call.name, "add");
  assert.equal(typeof call.input.a, "number");
  const told = await client.messages.create({
    ...ask, tools: [add],
    messages: [...ask.messages, { role: "assistant", content: asked.content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "42" }] }],
  });
  assert.equal(told.role, "assistant");
});

on("tools, streamed", async () => {
  const stream = client.messages.stream({ ...ask, max_tokens: 200, tools: [add], tool_choice: { type: "tool", name: "add" } });
  const last = await stream.finalMessage();
  const call = last.content.find((block) => block.type === "tool_use");
  assert.deepEqual(Object.keys(call.input).sort(), ["a", "b"]);
});

on("structured output, by a tool whose input it is", async () => {
  const person = {
    name: "person", input_schema: {
      type: "object", properties: { name: { type: "string" }, age: { type: "integer" } }, required: ["name", "age"],
      additionalProperties: false },
  };
  const answer = await client.messages.create({
    ...ask, max_tokens: 200, messages: [{ role: "user", content: "Give Ada, 36 as JSON" }], tools: [person],
    tool_choice: { type: "tool", name: "person" } });
  const { input } = answer.content.find((block) => block.type === "tool_use");
  assert.deepEqual(Object.keys(input).sort(), ["age", "name"]);
  assert.ok(Number.isInteger(input.age));
});

on("token counting", async () => {
  const { input_tokens } = await client.messages.countTokens({ model, messages: ask.messages });
  const { usage } = await client.messages.create(ask);
  assert.equal(input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
});

on("models", async () => {
  const { data } = await client.models.list();
  assert.equal(data[0].type, "model");
});

on("abort", () => expectCancelled(async () => {
  const stream = client.messages.stream({ ...ask, max_tokens: 4096, ignore_eos: true });
  let deltas = 0;
  await assert.rejects(async () => {
    for await (const event of stream) {
      if (event.type === "content_block_delta" && ++deltas === 3) stream.abort();
    }
    throw new Error("aborted");
  });
}));

on("wrong key", { skip: !guarded }, async () => {
  const stranger = new Anthropic({ baseURL: base, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(stranger.messages.create(ask), Anthropic.AuthenticationError);
});

on("retry", async () => {
  const proxy = await flakyProxy();
  const patient = new Anthropic({ baseURL: proxy.url, apiKey, maxRetries: 2 });
  assert.equal((await patient.messages.create(ask)).role, "assistant");
  assert.equal(proxy.refused(), 1);
  proxy.close();
});

on("errors", async () => {
  const error = await client.messages.create({ ...ask, temperature: "hot" }).catch((e) => e);
  assert.ok(error instanceof Anthropic.BadRequestError);
  assert.match(error.message, /temperature/);
});
