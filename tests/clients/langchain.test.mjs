// LangChain's OpenAI chat model: BASE_URL=http://host:port node --test langchain.test.mjs
import assert from "node:assert/strict";
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";
import { apiKey, base, expectCancelled, flakyProxy, guarded, model, on, question } from "./support.mjs";

const of = (more = {}, url = base, key = apiKey) => new ChatOpenAI(
  { model, temperature: 0, maxTokens: 16, maxRetries: 0, apiKey: key, configuration: { baseURL: `${url}/v1` }, ...more });
const add = tool(async ({ a, b }) => String(a + b), {
  name: "add", description: "Adds two numbers", schema: z.object({ a: z.number().int(), b: z.number().int() }) });

on("conversation", async () => {
  const answer = await of().invoke([new SystemMessage("Be brief."), new HumanMessage(question)]);
  assert.ok(answer instanceof AIMessage);
  assert.ok(answer.usage_metadata.output_tokens > 0);
  assert.match((await of().invoke(question)).content, /42/);
});

on("stream equals the whole answer", async () => {
  const whole = await of().invoke(question);
  let text = "";
  for await (const part of await of().stream(question)) text += part.content;
  assert.equal(text, whole.content);
});

on("tools", async () => {
  const asked = await of({ maxTokens: 200 }).bindTools([add], { tool_choice: "required" }).invoke(question);
  const [call] = asked.tool_calls;
  assert.equal(call.name, "add");
  const result = await add.invoke(call);
  assert.ok(result instanceof ToolMessage);
  const told = await of().bindTools([add]).invoke([new HumanMessage(question), asked, result]);
  assert.equal(typeof told.content, "string");
});

on("structured output", async () => {
  const person = await of({ maxTokens: 300 })
    .withStructuredOutput(z.object({ name: z.string(), age: z.number().int() }), { method: "jsonSchema" })
    .invoke("Give Ada, 36 as JSON");
  assert.ok(Number.isInteger(person.age));
});

on("abort", () => expectCancelled(async () => {
  const abort = new AbortController();
  await assert.rejects(async () => {
    const stream = await of({ maxTokens: 4096, modelKwargs: { ignore_eos: true } }).stream(question, { signal: abort.signal });
    for await (const _ of stream) abort.abort();
  });
}));

on("wrong key", { skip: !guarded }, async () => {
  await assert.rejects(of({}, base, "wrong").invoke(question), /401/);
});

on("retry", async () => {
  const proxy = await flakyProxy();
  assert.match((await of({ maxRetries: 2 }, proxy.url).invoke(question)).content, /42/);
  assert.equal(proxy.refused(), 1);
  proxy.close();
});
