// The Codex CLI, headless: BASE_URL=http://host:port node --test codex.test.mjs
// Each run has a home and a workspace of its own; no model decides what is executed: the one call is to a tool without
// arguments, which the server is made to choose.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { apiKey, base, expectCancelled, flakyProxy, guarded, model, on, question } from "../support.mjs";

const codex = fileURLToPath(new URL("node_modules/.bin/codex", import.meta.url));
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "fulmar-codex-"));
const patient = { timeout: 280_000 };  // its instructions are tens of thousands of tokens of the demo vocabulary
after(() => fs.rmSync(folder, { recursive: true, force: true }));

function homeOf(url, retries = 0) {
  const home = fs.mkdtempSync(path.join(folder, "home-"));
  fs.writeFileSync(path.join(home, "config.toml"), `
model = "${model}"
model_provider = "fulmar"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.fulmar]
name = "Fulmar"
base_url = "${url}/v1"
env_key = "FULMAR_KEY"
wire_api = "responses"
request_max_retries = ${retries}
stream_max_retries = 0
`);
  return home;
}

const workspace = path.join(folder, "work");
fs.mkdirSync(workspace);

function start(home, words, key = apiKey) {
  const child = spawn(codex, ["exec", "--skip-git-repo-check", "--sandbox", "read-only", "--json", ...words], {
    cwd: workspace, stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env.PATH, HOME: home, CODEX_HOME: home, FULMAR_KEY: key },
  });
  const events = [];
  let out = "", error = "";
  child.stdout.on("data", (bytes) => out += bytes);
  child.stderr.on("data", (bytes) => error += bytes);
  const done = new Promise((resolve) => child.on("close", (code) => {
    for (const line of out.split("\n")) if (line.startsWith("{")) events.push(JSON.parse(line));
    resolve({ code, events, error });
  }));
  return { child, done };
}

const said = ({ events }) => events.filter((event) => event.type === "item.completed" && event.item.type === "agent_message")
  .map((event) => event.item.text);

// Passes everything on, keeps the requests, and lets `change` alter a body before it goes.
async function recorder(change = () => {}) {
  const bodies = [];
  const proxy = http.createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const { host, connection, "content-length": _, ...headers } = request.headers;
    let body = Buffer.concat(parts);
    if (request.method === "POST") {
      const sent = JSON.parse(body);
      change(sent, bodies.length);
      bodies.push(sent);
      body = JSON.stringify(sent);
    }
    const answer = await fetch(base + request.url, { method: request.method, headers, body: body.length ? body : undefined });
    response.writeHead(answer.status, { "Content-Type": answer.headers.get("content-type") ?? "application/json" });
    for await (const chunk of answer.body ?? []) response.write(chunk);
    response.end();
  });
  await new Promise((listening) => proxy.listen(0, "127.0.0.1", listening));
  return { url: `http://127.0.0.1:${proxy.address().port}`, bodies, close: () => proxy.closeAllConnections() ?? proxy.close() };
}

on("conversation, resumed with its history", patient, async () => {
  const proxy = await recorder();
  const home = homeOf(proxy.url);
  const first = await start(home, [question]).done;
  assert.equal(first.code, 0, first.error);
  assert.match(said(first).join(""), /42/);
  const usage = first.events.find((event) => event.type === "turn.completed").usage;
  assert.ok(usage.input_tokens > 0 && usage.output_tokens > 0);
  const next = await start(home, ["resume", "--last", "And 1 + 1?"]).done;
  assert.equal(next.code, 0, next.error);
  assert.equal(said(next).length, 1);
  const { input, stream } = proxy.bodies.at(-1);
  assert.equal(stream, true);
  assert.ok(input.some((item) => item.role === "assistant" && /42/.test(JSON.stringify(item.content))), "the history was sent");
  proxy.close();
});

on("tools: a call is carried out and answered", patient, async () => {
  const proxy = await recorder((body, count) => {
    if (count === 0) body.tool_choice = { type: "function", name: "get_goal" };
  });
  const run = await start(homeOf(proxy.url), [question]).done;
  assert.equal(run.code, 0, run.error);
  assert.ok(proxy.bodies[0].tools.some((tool) => tool.type !== "function"), "tools that only others run are offered, too");
  const { input } = proxy.bodies[1];
  const call = input.find((item) => item.type === "function_call");
  assert.equal(call.name, "get_goal");
  assert.ok(input.some((item) => item.type === "function_call_output" && item.call_id === call.call_id));
  assert.equal(said(run).length, 1);
  proxy.close();
});

on("structured output", patient, async () => {
  const schema = path.join(folder, "schema.json");
  fs.writeFileSync(schema, JSON.stringify({
    type: "object", properties: { name: { type: "string", maxLength: 20 }, age: { type: "integer" } },
    required: ["name", "age"], additionalProperties: false,
  }));
  const run = await start(homeOf(base), ["--output-schema", schema, "Give Ada, 36 as JSON"]).done;
  assert.equal(run.code, 0, run.error);
  const calls = run.events.some((event) => event.type === "item.completed" && /tool|command/.test(event.item.type));
  if (!calls) assert.deepEqual(Object.keys(JSON.parse(said(run).at(-1))).sort(), ["age", "name"]);
});

on("abort", patient, () => expectCancelled(async () => {
  const { child, done } = start(homeOf(base), ["Count from 1 to 900"]);
  const { rows_running } = await running();
  assert.ok(rows_running > 0);
  child.kill("SIGINT");
  await done;
}));

async function running() {
  for (let wait = 0; wait < 1200; ++wait) {
    const text = await (await fetch(`${base}/metrics`)).text();
    const rows_running = Number(/^fulmar_rows_running (\d+)/m.exec(text)[1]);
    if (rows_running > 0) return { rows_running };
    await new Promise((wake) => setTimeout(wake, 20));
  }
  throw new Error("no request has come");
}

on("wrong key", { ...patient, skip: !guarded }, async () => {
  const run = await start(homeOf(base), [question], "wrong").done;
  assert.notEqual(run.code, 0);
  assert.match(JSON.stringify(run.events) + run.error, /401/);
});

on("retry", patient, async () => {
  const proxy = await flakyProxy();
  const run = await start(homeOf(proxy.url, 2), [question]).done;
  assert.equal(run.code, 0, run.error);
  assert.match(said(run).join(""), /42/);
  assert.equal(proxy.refused(), 1);
  proxy.close();
});
