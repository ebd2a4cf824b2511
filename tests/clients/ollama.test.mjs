// Ollama's own client: BASE_URL=http://host:port node --test ollama.test.mjs
import assert from "node:assert/strict";
import { Ollama } from "ollama";
import { apiKey, base, expectCancelled, flakyProxy, guarded, model, on, question } from "./support.mjs";

const headers = { Authorization: `Bearer ${apiKey}` };
const client = new Ollama({ host: base, headers });
const ask = { model, messages: [{ role: "user", content: question }], options: { temperature: 0, num_predict: 16 } };

on("conversation", async () => {
  const answer = await client.chat(ask);
  assert.match(answer.message.content, /42/);
  assert.equal(answer.done, true);
  assert.ok(answer.prompt_eval_count > 0 && answer.eval_count > 0);
  const next = await client.chat({ ...ask, messages: [...ask.messages, answer.message, { role: "user", content: "And 1 + 1?" }] });
  assert.equal(next.message.role, "assistant");
});

on("stream equals the whole answer", async () => {
  const whole = await client.chat(ask);
  let text = "", last = null;
  for await (const part of await client.chat({ ...ask, stream: true })) {
    text += part.message.content;
    last = part;
  }
  assert.equal(text, whole.message.content);
  assert.equal(last.done_reason, whole.done_reason);
});

on("generate", async () => {
  assert.match((await client.generate({ model, prompt: question, options: ask.options })).response, /42/);
  let text = "";
  for await (const part of await client.generate({ model, prompt: question, options: ask.options, stream: true })) text += part.response;
  assert.match(text, /42/);
});

on("thinking", async () => {
  const answer = await client.chat({ ...ask, think: true, options: { temperature: 0, num_predict: 400 } });
  assert.equal(typeof answer.message.thinking, "string");
});

on("tools", async () => {
  const tools = [{ type: "function", function: { name: "add", description: "Adds", parameters: { type: "object", properties: { a: { type: "integer" } }, required: ["a"] } } }];
  const answer = await client.chat({ ...ask, tools });
  assert.equal(answer.message.role, "assistant");
  const told = await client.chat({ ...ask, tools, messages: [...ask.messages,
    { role: "assistant", content: "", tool_calls: [{ function: { name: "add", arguments: { a: 42 } } }] },
    { role: "tool", content: "42", tool_name: "add" }] });
  assert.equal(told.message.role, "assistant");
});

on("structured output", async () => {
  const format = { type: "object", properties: { name: { type: "string" }, age: { type: "integer" } }, required: ["name", "age"], additionalProperties: false };
  const answer = await client.chat({ model, messages: [{ role: "user", content: "Give Ada, 36 as JSON" }], format, options: { num_predict: 200 } });
  const person = JSON.parse(answer.message.content);
  assert.deepEqual(Object.keys(person).sort(), ["age", "name"]);
  assert.equal(typeof JSON.parse((await client.generate({ model, prompt: "Give Ada, 36 as JSON", format: "json", options: { num_predict: 300 } })).response), "object");
});

on("embeddings", async () => {
  const { embeddings } = await client.embed({ model, input: ["one", "two"] });
  assert.equal(embeddings.length, 2);
  assert.ok(Math.abs(Math.hypot(...embeddings[0]) - 1) < 1e-3);
});

on("models", async () => {
  const { models } = await client.list();
  assert.equal(models[0].name, model);
  assert.equal((await client.ps()).models[0].name, model);
  const shown = await client.show({ model });
  assert.ok(shown.capabilities.includes("completion"));
  assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
  await assert.rejects(client.show({ model: "no-such-model" }), /not found/);
});

on("pull of a name that is none", async () => {
  await assert.rejects(client.pull({ model: "no such name" }), /names no model/);
});

on("abort", () => expectCancelled(async () => {
  const own = new Ollama({ host: base, headers });
  const stream = await own.chat({ ...ask, stream: true, options: { num_predict: 4096, ignore_eos: true } });
  let parts = 0;
  await assert.rejects(async () => {
    for await (const _ of stream) if (++parts === 3) own.abort();
  }, { name: "AbortError" });
}));

on("wrong key", { skip: !guarded }, async () => {
  const stranger = new Ollama({ host: base, headers: { Authorization: "Bearer wrong" } });
  await assert.rejects(stranger.chat(ask), { name: "ResponseError", status_code: 401 });
});

on("retry, by hand: this client has none of its own", async () => {
  const proxy = await flakyProxy();
  const patient = new Ollama({ host: proxy.url, headers });
  await assert.rejects(patient.chat(ask));
  assert.match((await patient.chat(ask)).message.content, /42/);
  proxy.close();
});
