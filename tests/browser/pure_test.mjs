// The pages' pure parts, without a browser: node --test pure_test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { groupsOf } from "../../web/chat/groups.js";
import { csvOf, rowsOf } from "../../web/chat/rows.js";
import { basisOf, chatFields, DEFAULTS, PRESETS, presetOf, schemaProblem, withPreset, splitModel, statesOf } from "../../web/chat/settings.js";
import { childrenOf, leafWithout, messagesOf, newestLeaf, pathTo, subtree, titleOf } from "../../web/chat/tree.js";
import { whereabouts } from "../../web/chat/whereabouts.js";
import { alertsOf, conditionOf, deviceOf, pulseOf } from "../../web/dashboard/alerts.js";
import { levelOf, linesOf } from "../../web/dashboard/log_lines.js";
import { metricsOf, summaryOf } from "../../web/dashboard/metrics.js";
import { plainProblem } from "../../web/dashboard/problems.js";
import { alignSeries, colourOf, mergeSeries } from "../../web/dashboard/series.js";
import { figuresLine, modelName } from "../../web/shared/format.js";
import { LiveAnswer } from "../../web/shared/generate.js";
import { errorText } from "../../web/shared/http.js";
import { LineSplitter } from "../../web/shared/lines.js";
import { CutStream, EventSplitter, eventsOf } from "../../web/shared/sse.js";

const turn = (id, parent, role, text, created) => ({ id, parent, role, text, created });
const tree = new Map([
  turn("q", null, "user", "one", 1), turn("a1", "q", "assistant", "first", 2), turn("a2", "q", "assistant", "second", 3),
  turn("q2", "a1", "user", "more", 4), turn("a3", "q2", "assistant", "third", 5),
].map((node) => [node.id, node]));
const ids = (list) => list.map((node) => node.id);

test("a conversation is a tree whose branches can be stepped through", () => {
  assert.deepEqual(ids(pathTo(tree, "a3")), ["q", "a1", "q2", "a3"]);
  assert.deepEqual(ids(childrenOf(tree, "q")), ["a1", "a2"]);
  assert.equal(newestLeaf(tree, "a1"), "a3");
  assert.equal(newestLeaf(tree, "q"), "a2", "the newest branch");
  assert.deepEqual(subtree(tree, "a1"), ["a1", "q2", "a3"]);
  assert.equal(leafWithout(tree, "a1"), "a2", "the branch beside it");
  assert.equal(leafWithout(tree, "q2"), "a1", "its parent");
  assert.equal(leafWithout(tree, "q"), null);
});

test("a circle of parents, as a damaged store might hold, ends", () => {
  const circle = new Map([["x", turn("x", "y", "user", "", 1)], ["y", turn("y", "x", "user", "", 2)]]);
  assert.ok(pathTo(circle, "x").length <= 3);
});

test("turns become messages", () => {
  const path = pathTo(tree, "a3");
  assert.deepEqual(messagesOf(path.slice(0, 2), "Be brief"), [
    { role: "system", content: "Be brief" }, { role: "user", content: "one" }, { role: "assistant", content: "first" }]);
  const withFile = { ...turn("q", null, "user", "read it", 1), files: [{ name: "x.txt", text: "line\n" }] };
  assert.equal(messagesOf([withFile], "")[0].content, "File x.txt:\n```\nline\n```\nread it");
  assert.equal(titleOf("  first line\nsecond"), "first line");
  assert.equal(titleOf("x".repeat(80)).length, 60);
});

test("settings become fields; what is empty is left to the server", () => {
  assert.deepEqual(chatFields({ ...DEFAULTS, temperature: "", top_p: "", max_tokens: "" }), {});
  const fields = chatFields({ ...DEFAULTS, temperature: "0", seed: "7", stop: "END\n\\n\\nUser:", think: "en", logprobs: true, schema: '{"type":"object"}' });
  assert.equal(fields.temperature, 0);
  assert.equal(fields.seed, 7);
  assert.deepEqual(fields.stop, ["END", "\n\nUser:"]);
  assert.equal(fields.think_type, "en");
  assert.deepEqual(fields.response_format.json_schema.schema, { type: "object" });
  assert.equal(fields.top_logprobs, 5);
  assert.match(schemaProblem("{"), /not JSON/);
  assert.equal(schemaProblem(""), null);
  const coding = withPreset({ ...DEFAULTS, system: "stays", seed: "3" }, PRESETS.Code);
  assert.equal(coding.system, "stays");
  assert.equal(coding.top_k, "100");
  assert.equal(presetOf(coding, PRESETS), "Code");
  assert.equal(presetOf({ ...coding, top_k: "99" }, PRESETS), null);
  assert.notEqual(basisOf("m", { system: "a" }), basisOf("m", { system: "b" }), "another system prompt makes the state useless");
});

test("the page says where text goes, and warns of an open network", () => {
  assert.match(whereabouts({ hostname: "127.0.0.1", protocol: "http:" }), /Nothing leaves it/);
  const elsewhere = whereabouts({ hostname: "192.168.1.9", protocol: "http:" });
  assert.match(elsewhere, /192\.168\.1\.9/);
  assert.match(elsewhere, /not encrypted/);
  assert.doesNotMatch(elsewhere, /Nothing leaves/);
});

test("conversations are listed by pin, folder and age", () => {
  const now = new Date("2026-03-10T12:00:00").getTime();
  const one = (id, updated, more = {}) => ({ id, updated, folder: "", pinned: false, ...more });
  const groups = groupsOf([one("a", now - 1000), one("b", now - 3 * 86_400_000), one("c", now - 30 * 86_400_000), one("d", now, { folder: "Work" }), one("e", now, { folder: "Work", pinned: true })], now);
  assert.deepEqual(groups.map(({ title, members }) => [title, ids(members).join("")]), [["Pinned", "e"], ["Work", "d"], ["Today", "a"], ["This week", "b"], ["Earlier", "c"]]);
});

test("rows of a batch, and the file of their answers", () => {
  const rows = rowsOf("a\n\n$& b\n", "User: {}\\n\\nAssistant:", 2);
  assert.deepEqual(rows.map((row) => row.sent), ["User: a\n\nAssistant:", "User: a\n\nAssistant:", "User: $& b\n\nAssistant:", "User: $& b\n\nAssistant:"]);
  assert.equal(csvOf([{ prompt: 'say "x"', text: "a,b\nc", finish: "stop" }]), 'prompt,answer,finish\r\n"say ""x""","a,b\nc","stop"');
});

test("events are split wherever the bytes were cut", () => {
  const text = "data: {\"a\":1}\r\n\r\n: comment\n\ndata: two\ndata: lines\n\ndata: [DONE]\n\n";
  for (let at = 0; at < text.length; ++at) {
    const splitter = new EventSplitter();
    assert.deepEqual([...splitter.push(text.slice(0, at)), ...splitter.push(text.slice(at))], ["{\"a\":1}", "two\nlines", "[DONE]"], `cut at ${at}`);
  }
});

test("a stream that ends without [DONE] is a cut one", async () => {
  const read = async (text) => { const all = []; for await (const event of eventsOf(new Response(text))) all.push(event); return all; };
  assert.deepEqual(await read("data: 1\n\ndata: [DONE]\n\n"), [1]);
  await assert.rejects(read("data: 1\n\n"), CutStream);
});

test("rates are told only of answers that took a while", () => {
  const answer = new LiveAnswer();
  answer.started = 0;
  answer.take({ delta: { content: "a" } }, 100);
  answer.take({ delta: { content: "b" } }, 100.1);
  answer.take({ delta: { content: "c" } }, 100.2);
  assert.equal(answer.figures().rate, null, "three tokens in a burst are no 20,000 a second");
  assert.equal(figuresLine(answer.figures()), "3 tokens · first after 100 ms");
  answer.take({ delta: { content: "d" } }, 1100);
  assert.equal(answer.figures().rate, 3);
  answer.usage = { prompt_tokens: 30, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 10 } };
  answer.forked = 44;
  assert.equal(figuresLine(answer.figures()), "3.0 tokens/s · 4 tokens · first after 100 ms · fed 20, reused 54");
});

test("the accepted share of drafts is told beside the rate, where there were any", () => {
  const answer = new LiveAnswer();
  answer.started = 0;
  answer.take({ delta: { content: "a" } }, 100);
  answer.take({ delta: { content: "b" } }, 1100);
  answer.usage = { prompt_tokens: 3, completion_tokens: 9, completion_tokens_details: { accepted_prediction_tokens: 6, rejected_prediction_tokens: 2 } };
  assert.equal(figuresLine(answer.figures()), "8.0 tokens/s · 75 % of 8 drafts accepted · 9 tokens · first after 100 ms · fed 3");
  answer.usage.completion_tokens_details = { accepted_prediction_tokens: 0, rejected_prediction_tokens: 1 };
  assert.match(figuresLine(answer.figures()), /· 0 % of 1 draft accepted ·/);
  answer.usage.completion_tokens_details = { reasoning_tokens: 4 };
  assert.doesNotMatch(figuresLine(answer.figures()), /draft/);
});

test("thinking is measured apart from the answer", () => {
  const answer = new LiveAnswer();
  answer.take({ delta: { reasoning_content: "hm" } }, 1000);
  answer.take({ delta: { content: "x" } }, 3500);
  answer.take({ delta: { content: "y" } }, 9000);
  assert.equal(answer.figures().thought, 2500);
});

test("errors come in each of the server's shapes", () => {
  assert.equal(errorText('{"error":{"message":"a"}}', "x"), "a");
  assert.equal(errorText('{"error":"b"}', "x"), "b");
  assert.equal(errorText('{"detail":[{"loc":["body","port"],"msg":"c"}]}', "x"), "port c");
  assert.equal(errorText("", "502 Bad Gateway"), "502 Bad Gateway");
  assert.equal(plainProblem("model_path: no file 'x'"), "No file 'x'.");
});

// ---- the dashboard

const worker = (more = {}) => ({ worker_id: "wkr-1", name: "w", phase: "ready", ready: true, restarts: 0, crash: null, rows_waiting: 0, rows_running: 0, spec: { gpu_id: null, max_queue_size: 1000 }, ...more });
const crash = { reason: "exit code 3", lines: ["a", "the last words", ""] };

test("a crash is seen although the worker is ready again", () => {
  assert.deepEqual(conditionOf(worker()), { kind: "good", text: "ready" });
  assert.deepEqual(conditionOf(worker({ restarts: 1, crash })), { kind: "warn", text: "ready, restarted once" });
  assert.equal(conditionOf(worker({ phase: "exited", crash })).text, "failed: exit code 3");
  assert.equal(conditionOf(worker({ phase: "exited" })).kind, "idle", "one that was stopped has not failed");
});

test("the mark is green only when all are ready", () => {
  const failed = worker({ phase: "exited", ready: false, crash });
  assert.equal(pulseOf([worker(), failed, failed], "").kind, "warn");
  assert.equal(pulseOf([worker(), failed, failed], "").text, "1 of 3 ready");
  assert.equal(pulseOf([worker()], "").kind, "good");
  assert.equal(pulseOf([failed], "").kind, "bad");
  assert.equal(pulseOf([], "").kind, "idle");
  assert.equal(pulseOf([worker()], "away").kind, "bad");
});

test("what needs a person is said, with the reason in full", () => {
  const found = alertsOf({ workers: [worker({ phase: "exited", crash }), worker({ spec: { gpu_id: 0, max_queue_size: 10 }, rows_waiting: 9 })], gpus: [], lost: "" });
  assert.match(found[0].text, /has failed: exit code 3.*the last words/);
  assert.ok(found.some((one) => /no GPU, it runs on the CPU/.test(one.text)));
  assert.ok(found.some((one) => /9 rows queued of at most 10/.test(one.text)));
  assert.equal(deviceOf(worker({ spec: { gpu_id: 0 } }), []), "no GPU 0: runs on the CPU");
  assert.equal(deviceOf(worker({ spec: { gpu_id: 0 } }), [{ index: 0 }]), "GPU 0");
  assert.equal(deviceOf(worker({ spec: { gpu_id: null, spread: "--devices 0,1 --tp 2" } }), [{ index: 0 }]), "several GPUs: --devices 0,1 --tp 2");
  assert.deepEqual(alertsOf({ workers: [worker()], gpus: [{ index: 0, temperature: 60, memory_total_mb: 100, memory_used_mb: 50 }], lost: "" }), []);
});

test("series are merged, cut to their age, and lined up with holes", () => {
  const merged = mergeSeries(new Map([["a", { time: [1, 50], v: [1, 2] }], ["gone", { time: [1], v: [1] }]]), { a: { time: [55], v: [3] } }, 40);
  assert.deepEqual([...merged], [["a", { time: [50, 55], v: [2, 3] }]]);
  const map = new Map([["a", { time: [100, 105, 200], v: [1, 2, 3] }], ["b", { time: [101], v: [9] }]]);
  const [times, a, b] = alignSeries(map, [["a", "v"], ["b", "v"]], { from: 0, step: 5 });
  assert.deepEqual(times, [100, 105, 110, 200]);
  assert.deepEqual(a, [1, 2, null, 3], "a worker that was away leaves a hole");
  assert.deepEqual(b, [9, null, null, null]);
  const first = colourOf("one");
  colourOf("two");
  assert.equal(colourOf("one"), first, "a colour stays with its worker");
});

test("logs are searched and filtered by level", () => {
  const lines = ["2026-01-01T00:00:00.000 info started", "2026-01-01T00:00:00.000 error broke", "  with a second line", "plain"];
  assert.equal(levelOf(lines[1]), "error");
  assert.deepEqual(linesOf(lines, "", "error"), lines.slice(1), "lines without a level belong to the one before");
  assert.deepEqual(linesOf(lines, "START", ""), [lines[0]]);
});

test("lines are split wherever the pieces end", () => {
  const splitter = new LineSplitter();
  assert.deepEqual(splitter.push('{"a":1}\n{"b"'), ['{"a":1}']);
  assert.deepEqual(splitter.push(':2}\r\n\n{"c":3}'), ['{"b":2}\r']);
  assert.deepEqual(splitter.push("\n"), ['{"c":3}']);
});

test("a model is called after its file", () => {
  assert.deepEqual(["/m/g1.pth", "x.y.gguf", "folder", "a.state"].map(modelName), ["g1", "x.y", "folder", "a.state"]);
});

test("a model's tuned states are told from the models", () => {
  assert.deepEqual(splitModel("g1"), { base: "g1", state: "" });
  assert.deepEqual(splitModel("g1 poet v2"), { base: "g1", state: "poet v2" });
  assert.deepEqual(statesOf([{ id: "g1" }, { id: "g1 poet" }, { id: "g1x pirate" }, { id: "g1 cook" }], "g1"), ["poet", "cook"]);
});

test("metrics are read for people", () => {
  const metrics = metricsOf('# HELP x y\nfulmar_prompt_tokens_total 300\nfulmar_prefix_cache_tokens_reused_total 100\nfulmar_prefix_cache_hits_total{level="host"} 2\nfulmar_key_generated_tokens_total{key="ada"} 5\nfulmar_slots 8\nfulmar_slots_used 3\n');
  const drafts = (drafted, accepted) => metricsOf(`fulmar_drafted_tokens_total{source="ngram"} ${drafted}\nfulmar_drafted_tokens_total{source="model"} 1\nfulmar_accepted_draft_tokens_total{source="ngram"} ${accepted}\n`);
  assert.deepEqual(summaryOf(drafts(7, 6)).at(-1), ["Drafts accepted", "6 of 8 (75.0 %)"]);
  assert.equal(Object.fromEntries(summaryOf(metrics))["Drafts accepted"], undefined, "not told by this worker");
  const rows = Object.fromEntries(summaryOf(metrics));
  assert.equal(rows["Prompt tokens reused"], "100 (25.0 % of all)");
  assert.equal(rows["Prefix hits"], "host 2");
  assert.equal(rows["ada: generated tokens"], "5");
  assert.equal(rows.Slots, "3 of 8 taken");
  const gpu = (name, used, layers) => `fulmar_gpu_memory_bytes{device="${name}",kind="total"} ${8 * 2 ** 30}\nfulmar_gpu_memory_bytes{device="${name}",kind="used"} ${used}\nfulmar_gpu_layers{device="${name}"} ${layers}\n`;
  const both = Object.fromEntries(summaryOf(metricsOf(gpu("cuda:0", 4 * 2 ** 30, 8) + gpu("cuda:1", 3 * 2 ** 30, 24))));
  assert.equal(both["cuda:0"], "4.0 GiB of 8.0 GiB taken, 25.0 % of the model");
  assert.equal(both["cuda:1"], "3.0 GiB of 8.0 GiB taken, 75.0 % of the model");
  assert.equal(rows["cuda:0"], undefined, "a worker without a GPU");
});
