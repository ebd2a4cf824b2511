// The server's description of itself: a document of OpenAPI 3.1 by that standard's own schema, and what each family answers,
// whole and streamed, is as it says. BASE_URL=http://host:port node --test openapi.test.mjs
import assert from "node:assert/strict";
import Ajv from "ajv/dist/2020.js";
import { Validator } from "@seriousme/openapi-schema-validator";
import { apiKey, base, on, question } from "./support.mjs";

const document = await (await fetch(`${base}/openapi.json`)).json();
const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false });
ajv.addSchema({ $id: "fulmar:api", components: document.components });

// Answers to `value`: an error of the schema in words, or nothing.
function misfit(schema, value) {
  const absolute = JSON.parse(JSON.stringify(schema).replaceAll("\"#/components/", "\"fulmar:api#/components/"));
  const validate = ajv.compile(absolute);
  return validate(value) ? "" : ajv.errorsText(validate.errors);
}

async function ask(method, path, body) {
  const answer = await fetch(base + path, {
    method,
    headers: { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
  });
  const type = (answer.headers.get("content-type") ?? "").split(";")[0];
  return { status: answer.status, type, text: await answer.text() };
}

// Asks, and holds the answer against the document. Returns what it was.
async function expectPublished(method, path, body) {
  const operation = document.paths[path][method.toLowerCase()];
  const answer = await ask(method, path, body);
  const place = `${method} ${path} ${answer.status}`;
  assert.ok(operation.responses[answer.status], `${place} is published`);
  const media = operation.responses[answer.status].content[answer.type];
  assert.ok(media, `${place} ${answer.type} is published`);
  if (body) assert.equal(misfit(operation.requestBody.content["application/json"].schema, body), "", `request of ${place}`);
  if (answer.type === "application/json") {
    assert.equal(misfit(media.schema, JSON.parse(answer.text)), "", `${place} ${answer.text}`);
    return answer;
  }
  const lines = answer.type === "application/x-ndjson";
  const events = answer.text.split("\n").filter((line) => (lines ? line : line.startsWith("data: ") && line !== "data: [DONE]"));
  assert.ok(events.length > 0, place);
  for (const event of events) {
    const text = lines ? event : event.slice("data: ".length);
    assert.equal(misfit(media["x-event-schema"], JSON.parse(text)), "", `${place} ${text}`);
  }
  return answer;
}

const messages = [{ role: "user", content: question }];
const tool = { type: "function", function: { name: "add", parameters: { type: "object", properties: { x: { type: "integer" } }, required: ["x"] } } };
const bodies = {
  "/v1/chat/completions": [{ messages, max_tokens: 8, logprobs: true, top_logprobs: 2 }, { contents: ["A"], max_tokens: 4 },
    { messages, tools: [tool], tool_choice: "required", max_tokens: 40 }],
  "/v1/completions": [{ prompt: "The cat", max_tokens: 8, logprobs: 2 }],
  "/v1/responses": [{ input: question, max_output_tokens: 8 }],
  "/v1/messages": [{ messages, max_tokens: 8 }],
  "/api/chat": [{ messages, options: { num_predict: 8 } }],
  "/api/generate": [{ prompt: question, options: { num_predict: 8 } }],
  "/completion": [{ prompt: "The cat", n_predict: 8 }],
  "/infill": [{ input_prefix: "1, 2,", input_suffix: "4, 5", n_predict: 8 }],
  "/openai/v1/chat/completions": [{ messages, max_tokens: 8 }],
  "/v2/chat/completions": [{ contents: ["A"], max_tokens: 8 }],
  "/v3/chat/completions": [{ messages, max_tokens: 8 }],
  "/v1/batch/completions": [{ contents: ["A", "B"], max_tokens: 8 }],
  "/big_batch/completions": [{ contents: ["A"], max_tokens: 8 }],
  "/FIM/v1/batch-FIM": [{ prefix: ["1, 2,"], suffix: ["4, 5"], max_tokens: 8 }],
  "/state/chat/completions": [{ session_id: "s", contents: ["A"], max_tokens: 8 }],
  "/multi_state/chat/completions": [{ session_id: "t", dialogue_idx: 0, contents: ["A"], max_tokens: 8 }],
};

on("the document is one of OpenAPI 3.1", async () => {
  const result = await new Validator().validate(structuredClone(document));
  assert.ok(result.valid, JSON.stringify(result.errors));
});

for (const [path, list] of Object.entries(bodies)) {
  on(`answers of ${path}`, async () => {
    for (const body of list) {
      for (const stream of [false, true]) {
        const answer = await expectPublished("POST", path, { ...body, stream });
        assert.equal(answer.status, 200, answer.text);
        assert.equal(answer.type === "application/json", !stream);
      }
    }
    assert.equal((await expectPublished("POST", path, undefined)).status, path.startsWith("/api/") ? 200 : 400);
  });
}

on("what is not generated", async () => {
  for (const [path, body] of Object.entries({
    "/v1/embeddings": { input: "a" }, "/api/embed": { input: "a" }, "/api/embeddings": { prompt: "a" }, "/tokenize": { content: "a" },
    "/detokenize": { tokens: [105] }, "/v1/tokens/count": { text: "a" }, "/apply-template": { messages },
    "/v1/messages/count_tokens": { messages }, "/v1/responses/input_tokens": { input: "a" }, "/api/show": { model: "fulmar-demo" },
    "/state/delete": { session_id: "nobody" }, "/translate/v1/batch-translate": { source_lang: "en", target_lang: "zh-CN", text_list: ["a"] },
    "/loadmodel": { model_filename: "none" }, "/v1/server/stop": { request_id: "none" },
  })) await expectPublished("POST", path, body);
  for (const [path, methods] of Object.entries(document.paths)) {
    if (methods.get && !path.includes("{") && !["/metrics", "/"].includes(path)) await expectPublished("GET", path);
  }
});
