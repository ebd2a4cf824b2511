// OpenAI's agents SDK over both of its APIs: BASE_URL=http://host:port node --test agents.test.mjs
import assert from "node:assert/strict";
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";
import { apiKey, base, expectCancelled, flakyProxy, guarded, model, on, question } from "./support.mjs";

setTracingDisabled(true);
const clientOf = (url, key, maxRetries = 0) => new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries });
const short = { temperature: 0, maxTokens: 16 };

for (const [api, Model] of Object.entries({ chat: OpenAIChatCompletionsModel, responses: OpenAIResponsesModel })) {
  const own = new Model(clientOf(base, apiKey), model);
  const agentOf = (more = {}, over = own) => new Agent({ name: "a", instructions: "Be brief.", model: over, modelSettings: short, ...more });
  const runner = new Runner({ tracingDisabled: true });

  on(`${api}: conversation`, async () => {
    const first = await runner.run(agentOf(), question);
    assert.equal(typeof first.finalOutput, "string");
    const next = await runner.run(agentOf(), [...first.history, { role: "user", content: "And 1 + 1?" }]);
    assert.equal(typeof next.finalOutput, "string");
  });

  on(`${api}: stream`, async () => {
    const result = await runner.run(agentOf(), question, { stream: true });
    let text = "";
    for await (const part of result.toTextStream()) text += part;
    await result.completed;
    assert.equal(text, result.finalOutput);
  });

  on(`${api}: tools`, async () => {
    let seen = null;
    const add = tool({
      name: "add", description: "Adds two numbers", parameters: z.object({ a: z.number().int(), b: z.number().int() }),
      execute: async (input) => { seen = input; return String(input.a + input.b); },
    });
    const result = await runner.run(
      agentOf({ tools: [add], modelSettings: { ...short, maxTokens: 200, toolChoice: "required" } }), question, { maxTurns: 4 });
    assert.ok(Number.isInteger(seen.a) && Number.isInteger(seen.b));
    assert.equal(typeof result.finalOutput, "string");
  });

  on(`${api}: structured output`, async () => {
    const outputType = z.object({ name: z.string(), age: z.number().int() });
    const result = await runner.run(
      agentOf({ outputType, modelSettings: { ...short, maxTokens: 300 } }), "Give Ada, 36 as JSON");
    assert.ok(Number.isInteger(result.finalOutput.age));
  });

  on(`${api}: abort`, () => expectCancelled(async () => {
    const abort = new AbortController();
    const agent = agentOf({ modelSettings: { temperature: 1, maxTokens: 4096, providerData: { ignore_eos: true } } });
    const result = await runner.run(agent, question, { stream: true, signal: abort.signal });
    try {
      for await (const _ of result.toTextStream()) abort.abort();
      await result.completed;
    } catch { /* some versions end the stream, others throw */ }
  }));

  on(`${api}: wrong key`, { skip: !guarded }, async () => {
    const stranger = new Model(clientOf(base, "wrong"), model);
    await assert.rejects(runner.run(agentOf({}, stranger), question), OpenAI.AuthenticationError);
  });

  on(`${api}: retry`, async () => {
    const proxy = await flakyProxy();
    const patient = new Model(clientOf(proxy.url, apiKey, 2), model);
    assert.equal(typeof (await runner.run(agentOf({}, patient), question)).finalOutput, "string");
    assert.equal(proxy.refused(), 1);
    proxy.close();
  });
}
