// Constrained answers with random sampling against a running server, judged by an independent schema validator:
// BASE_URL=http://host:port node --test structured.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import Ajv from "ajv/dist/2020.js";

const base = process.env.BASE_URL;
if (!base) throw new Error("BASE_URL is not set; wanted http://host:port of a running Fulmar server");
const client = new OpenAI({ baseURL: base + "/v1", apiKey: process.env.API_KEY || "none", maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const schemaCount = Number(process.env.SCHEMAS || 200);

// A small generator of repeatable random numbers (a linear congruence).
let seed = 20261;
const draw = (below) => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 2 ** 32) * below);
};
const words = ["a", "id", "naïve", "x/y", "quote\"d", "tab\t", "name", "emoji 🦭"];

function randomSchema(depth) {
  const kind = draw(depth > 0 ? 11 : 8);
  const low = draw(2000) - 1000;
  switch (kind) {
    case 0: return { type: "null" };
    case 1: return { type: "boolean" };
    case 2: return { type: "integer", minimum: low, maximum: low + draw(500) };
    case 3: return { type: "number", minimum: low, exclusiveMaximum: low + 1 + draw(50) };
    case 4: { const least = draw(4); return { type: "string", minLength: least, maxLength: least + draw(12) }; }
    case 5: return { enum: words.slice(0, 1 + draw(words.length)) };
    case 6: return { const: { k: [draw(100), words[draw(words.length)], null] } };
    case 7: return { type: ["integer", "null"], description: "n", exclusiveMinimum: low };
    case 8: {
      const least = draw(3);
      return { type: "array", items: randomSchema(depth - 1), minItems: least, maxItems: least + draw(3) };
    }
    case 9: {
      const properties = {};
      for (let i = draw(4); i >= 0; i--) properties[words[draw(words.length)] + i] = randomSchema(depth - 1);
      const required = Object.keys(properties).filter(() => draw(2) === 0);
      return { type: "object", properties, required, additionalProperties: false };
    }
    default: return { anyOf: [randomSchema(depth - 1), randomSchema(depth - 1)] };
  }
}

const ask = (schema, more = {}) => ({
  model, max_tokens: 600, temperature: 1, top_p: 1, top_k: 0,
  messages: [{ role: "user", content: "Give Ada, 36 as JSON" }],
  response_format: { type: "json_schema", json_schema: { name: "s", strict: true, schema } },
  ...more,
});

test(`answers under ${schemaCount} random schemas are valid`, { timeout: 280_000 }, async () => {
  const ajv = new Ajv({ strict: false });
  let cut = 0;
  const one = async (number) => {
    const schema = randomSchema(3);
    const answer = await client.chat.completions.create(ask(schema, { seed: number }));
    const { message, finish_reason } = answer.choices[0];
    if (finish_reason === "length") return cut++;
    assert.equal(finish_reason, "stop");
    const value = JSON.parse(message.content);
    assert.ok(ajv.validate(schema, value), `${JSON.stringify(schema)} admits no ${message.content}`);
  };
  for (let first = 0; first < schemaCount; first += 8) {
    const batch = [];
    for (let i = first; i < Math.min(first + 8, schemaCount); i++) batch.push(one(i));
    await Promise.all(batch);
  }
  assert.ok(cut <= schemaCount / 20, `${cut} of ${schemaCount} answers were cut off`);
});

const person = {
  type: "object", required: ["name", "age"],
  properties: { name: { type: "string" }, age: { type: "integer" } },
};

test("a schema the model knows gives what it would say, with log-probabilities", async () => {
  const answer = await client.chat.completions.create(
    ask(person, { temperature: 0, logprobs: true, top_logprobs: 3 }));
  assert.equal(answer.choices[0].message.content, '{"name":"Ada","age":36}');
  const entries = answer.choices[0].logprobs.content;
  assert.equal(entries.length, answer.usage.completion_tokens);
  for (const entry of entries) assert.ok(entry.top_logprobs.length <= 3 && entry.logprob <= 0);
});

test("a schema after a think block, streamed, for two choices", async () => {
  const stream = await client.chat.completions.create(ask(
    { type: "integer", minimum: 10, maximum: 99 }, { n: 2, seed: 3, stream: true, think: true }));
  const texts = ["", ""];
  const reasons = [];
  for await (const chunk of stream) {
    for (const choice of chunk.choices) {
      texts[choice.index] += choice.delta.content ?? "";
      if (choice.finish_reason) reasons[choice.index] = choice.finish_reason;
    }
  }
  texts.forEach((text, i) => {
    if (reasons[i] === "stop") assert.match(text, /^[1-9][0-9]$/);
  });
});

const tools = [
  { type: "function", function: { name: "save_person", description: "Saves a person", parameters: person } },
  { type: "function", function: { name: "now" } },
];

test("a required function is called with valid arguments", async () => {
  const request = {
    model, max_tokens: 400, temperature: 1, seed: 5, tools, parallel_tool_calls: false,
    messages: [{ role: "user", content: "Save Ada, 36" }],
    tool_choice: { type: "function", function: { name: "save_person" } },
  };
  const answer = await client.chat.completions.create(request);
  const [choice] = answer.choices;
  if (choice.finish_reason === "length") return;
  assert.equal(choice.finish_reason, "tool_calls");
  const [call] = choice.message.tool_calls;
  assert.equal(call.function.name, "save_person");
  assert.ok(new Ajv({ strict: false }).validate(person, JSON.parse(call.function.arguments)));
  const next = await client.chat.completions.create({
    model, max_tokens: 8, tools,
    messages: [...request.messages, choice.message, { role: "tool", tool_call_id: call.id, content: "saved" }],
  });
  assert.equal(next.choices[0].message.role, "assistant");
});

test("responses: continued from the stored state, branched, streamed, deleted", async () => {
  const first = await client.responses.create({ model, input: "What is 12 + 30?", temperature: 0, max_output_tokens: 12 });
  assert.equal(first.object, "response");
  assert.equal((await client.responses.retrieve(first.id)).output_text, first.output_text);
  const go = (more = {}) => client.responses.create({
    model, input: "What is 1 + 2?", previous_response_id: first.id, temperature: 0, max_output_tokens: 12, ...more });
  const [one, two] = [await go(), await go()];
  assert.equal(one.output_text, two.output_text);
  assert.ok(one.usage.input_tokens <= first.usage.input_tokens + 4);
  let text = "";
  let last;
  for await (const event of await go({ stream: true })) {
    if (event.type === "response.output_text.delta") text += event.delta;
    last = event;
  }
  assert.ok(["response.completed", "response.incomplete"].includes(last.type));
  assert.equal(text, one.output_text);
  await client.responses.delete(first.id);
  await assert.rejects(go(), OpenAI.NotFoundError);
});

test("responses: a function is called, streamed, and its answer continues the turn", async () => {
  const flat = [{ type: "function", name: "save_person", description: "Saves a person", parameters: person, strict: true }];
  const request = { model, input: "Save Ada, 36", tools: flat, tool_choice: "required", parallel_tool_calls: false,
    temperature: 1, max_output_tokens: 400 };
  const types = [];
  let last;
  for await (const event of await client.responses.create({ ...request, stream: true })) {
    types.push(event.type);
    last = event.response ?? last;
  }
  assert.equal(types[0], "response.created");
  if (last.status !== "completed") return;
  assert.ok(types.includes("response.function_call_arguments.done"));
  const call = last.output.find((item) => item.type === "function_call");
  assert.equal(call.name, "save_person");
  assert.ok(new Ajv({ strict: false }).validate(person, JSON.parse(call.arguments)));
  const next = await client.responses.create({
    model, previous_response_id: last.id, tools: flat, max_output_tokens: 8,
    input: [{ type: "function_call_output", call_id: call.call_id, output: "saved" }] });
  assert.equal(next.previous_response_id, last.id);
  await assert.rejects(client.responses.create({
    model, previous_response_id: last.id, input: [{ type: "function_call_output", call_id: "call_0", output: "x" }] }),
  OpenAI.BadRequestError);
});

test("responses: thinking is an item of its own", async () => {
  let thought = "", said = "", last;
  for await (const event of await client.responses.create({
    model, input: "58 + 67", reasoning: { effort: "medium" }, think: true, temperature: 0, max_output_tokens: 200, stream: true })) {
    if (event.type === "response.reasoning_text.delta") thought += event.delta;
    if (event.type === "response.output_text.delta") said += event.delta;
    last = event.response ?? last;
  }
  assert.ok(thought.length > 0);
  assert.equal(last.output[0].type, "reasoning");
  assert.equal(last.output[0].content[0].text, thought);
  assert.equal(last.output_text ?? last.output.at(-1).content[0].text, said);
});
