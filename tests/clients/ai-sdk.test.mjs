// The AI SDK with both of its OpenAI providers: BASE_URL=http://host:port node --test ai-sdk.test.mjs
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";
import { apiKey, base, expectCancelled, flakyProxy, guarded, model, on, question } from "./support.mjs";

const chatOf = (url, key) => createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).chat(model);
const responsesOf = (url, key) => createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).responses(model);
const compatibleOf = (url, key) => createOpenAICompatible(
  { name: "fulmar", baseURL: `${url}/v1`, apiKey: key, supportsStructuredOutputs: true })(model);

for (const [provider, of] of Object.entries({ chat: chatOf, responses: responsesOf, compatible: compatibleOf })) {
  const own = of(base, apiKey);
  const short = { model: own, maxOutputTokens: 16, temperature: 0, maxRetries: 0 };

  on(`${provider}: conversation`, async () => {
    const { text, usage, response } = await generateText({ ...short, prompt: question });
    assert.match(text, /42/);
    assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
    const next = await generateText({ ...short, messages: [
      { role: "user", content: question }, ...response.messages, { role: "user", content: "And 1 + 1?" }] });
    assert.equal(typeof next.text, "string");
  });

  on(`${provider}: stream equals the whole answer`, async () => {
    const { text } = await generateText({ ...short, prompt: question });
    let streamed = "";
    for await (const delta of streamText({ ...short, prompt: question }).textStream) streamed += delta;
    assert.equal(streamed, text);
  });

  on(`${provider}: tools`, async () => {
    let seen = null;
    const add = tool({
      description: "Adds two numbers", inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
      execute: async (input) => { seen = input; return input.a + input.b; },
    });
    const { steps } = await generateText({
      ...short, maxOutputTokens: 200, prompt: question, tools: { add }, toolChoice: "required", stopWhen: isStepCount(1) });
    assert.equal(steps[0].toolCalls[0].toolName, "add");
    assert.ok(Number.isInteger(seen.a) && Number.isInteger(seen.b));
  });

  on(`${provider}: structured output`, async () => {
    const { output } = await generateText({
      ...short, maxOutputTokens: 300, prompt: "Give Ada, 36 as JSON",
      output: Output.object({ schema: z.object({ name: z.string(), age: z.number().int().min(0).max(200) }) }) });
    assert.ok(Number.isInteger(output.age));
  });

  on(`${provider}: abort`, () => expectCancelled(async () => {
    const abort = new AbortController();
    const { textStream } = streamText(
      { model: own, maxOutputTokens: 4096, temperature: 1, prompt: "Count from 1 to 900", abortSignal: abort.signal, maxRetries: 0,
        onError: () => {} });
    try {
      for await (const _ of textStream) abort.abort();
    } catch (error) {
      assert.equal(error.name, "AbortError");
    }
  }));

  on(`${provider}: wrong key`, { skip: !guarded }, async () => {
    const error = await generateText({ ...short, model: of(base, "wrong"), prompt: question }).catch((e) => e);
    assert.ok(APICallError.isInstance(error), String(error));
    assert.equal(error.statusCode, 401);
  });

  on(`${provider}: retry`, async () => {
    const proxy = await flakyProxy();
    const { text } = await generateText({ ...short, model: of(proxy.url, apiKey), prompt: question, maxRetries: 2 });
    assert.match(text, /42/);
    assert.equal(proxy.refused(), 1);
    proxy.close();
  });
}
