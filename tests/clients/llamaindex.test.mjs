// LlamaIndex with its OpenAI model: BASE_URL=http://host:port node --test llamaindex.test.mjs
import assert from "node:assert/strict";
import { OpenAI } from "@llamaindex/openai";
import { tool } from "llamaindex";
import { z } from "zod";
import { apiKey, base, expectCancelled, flakyProxy, guarded, model, on, question } from "./support.mjs";

const of = (more = {}, url = base, key = apiKey) => new OpenAI(
  { model, temperature: 0, maxTokens: 16, apiKey: key, baseURL: `${url}/v1`, maxRetries: 0, supportToolCall: true, ...more });
const messages = [{ role: "user", content: question }];

on("conversation", async () => {
  const { message } = await of().chat({ messages });
  assert.match(message.content, /42/);
  const next = await of().chat({ messages: [...messages, message, { role: "user", content: "And 1 + 1?" }] });
  assert.equal(next.message.role, "assistant");
});

on("stream equals the whole answer", async () => {
  const { message } = await of().chat({ messages });
  let text = "";
  for await (const part of await of().chat({ messages, stream: true })) text += part.delta;
  assert.equal(text, message.content);
});

on("tools", async () => {
  const add = tool({
    name: "add", description: "Adds two numbers", parameters: z.object({ a: z.number(), b: z.number() }),
    execute: ({ a, b }) => String(a + b) });
  const { message } = await of({ maxTokens: 200, additionalChatOptions: { tool_choice: "required" } }).chat({ messages, tools: [add] });
  assert.equal(message.options.toolCall[0].name, "add");
});

on("structured output", async () => {
  const responseFormat = z.object({ name: z.string(), age: z.number().int() });
  const { message } = await of({ maxTokens: 300 }).chat(
    { messages: [{ role: "user", content: "Give Ada, 36 as JSON" }], responseFormat });
  assert.ok(Number.isInteger(JSON.parse(message.content).age));
});

on("abort, by its own fetch: its streams have no other way", () => expectCancelled(async () => {
  const abort = new AbortController();
  const llm = of({
    maxTokens: 4096, additionalChatOptions: { ignore_eos: true },
    additionalSessionOptions: { fetch: (url, init) => fetch(url, { ...init, signal: abort.signal }) } });
  await assert.rejects(async () => {
    for await (const _ of await llm.chat({ messages, stream: true })) abort.abort();
    throw new Error("aborted");
  });
}));

on("wrong key", { skip: !guarded }, async () => {
  await assert.rejects(of({}, base, "wrong").chat({ messages }), /401/);
});

on("retry", async () => {
  const proxy = await flakyProxy();
  assert.match((await of({ maxRetries: 2 }, proxy.url).chat({ messages })).message.content, /42/);
  assert.equal(proxy.refused(), 1);
  proxy.close();
});
