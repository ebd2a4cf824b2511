// The site of the documents: its figures hold the measured numbers, its links lead somewhere, and nothing comes from
// elsewhere.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { kindsOf, kindsPlot } from "../../tools/site/kinds_plot.mjs";
import { barsOf, cellsOf, decodeSeries, linePlot, numbersOf } from "../../tools/site/plot.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const LIBRARIES = existsSync(join(ROOT, "web/node_modules/marked"));

const TABLE = `| case | peer | ours |
|---|---|---|
| decode 1, fp32 / fp16 | 100 | 250.5 / **1,260** |
| decode 32 | 800 | 2,000 |
| prefill 1x512 | 20,000 | 40,000 |
| 1.5B, decode 1 | 5 | 5 |`;

test("tables are read as they are written", () => {
  assert.deepEqual(cellsOf(TABLE)[1], ["decode 1, fp32 / fp16", "100", "250.5 / **1,260**"]);
  assert.deepEqual(numbersOf("250.5 / **1,260**"), [250.5, 1260]);
  assert.deepEqual(numbersOf("65 %"), [65]);
  assert.deepEqual(numbersOf("see below"), []);
  assert.deepEqual(numbersOf(""), []);
});

test("series have a point for each row that was measured, the better one of a pair", () => {
  const [ours, peer] = decodeSeries(TABLE, [["ours", "Ours"], ["peer", "Peer"]]);
  assert.deepEqual(ours.points, [[1, 1260], [32, 2000]]);
  assert.deepEqual(peer.points, [[1, 100], [32, 800]]);
  assert.throws(() => decodeSeries(TABLE, [["theirs", "Theirs"]]), /no column for 'Theirs'/);
  assert.deepEqual(barsOf(TABLE, "prefill ", [["ours", "Ours"], ["peer", "Peer"]]), [["1x512", { Ours: 40000, Peer: 20000 }]]);
});

test("a plot places higher numbers higher, and says each one", () => {
  const svg = linePlot({ title: "T & co", x: "x", y: "y", series: decodeSeries(TABLE, [["ours", "Ours"], ["peer", "Peer"]]) });
  const dots = [...svg.matchAll(/<circle cx="([\d.]+)" cy="([\d.]+)"[^>]*><title>(\w+), (\d+): ([\d,]+)/g)].map(([, x, y, name, at, value]) => ({ x: Number(x), y: Number(y), name, at, value }));
  assert.equal(dots.length, 4);
  assert.ok(dots[0].x < dots[1].x && dots[0].y > dots[1].y);
  assert.deepEqual(dots.map((dot) => dot.value), ["1,260", "2,000", "100", "800"]);
  assert.match(svg, /T &amp; co/);
  assert.throws(() => linePlot({ title: "T", x: "", y: "", series: [{ name: "a", points: [] }] }), /no figures/);
});

test("the site is whole: every link leads to a page and a heading of it, figures stand beside their tables", { skip: !LIBRARIES && "npm ci has not been run in web/" }, () => {
  const out = mkdtempSync(join(tmpdir(), "fulmar-site-"));
  const made = spawnSync(process.execPath, [join(ROOT, "tools/site/build.mjs"), out], { encoding: "utf8" });
  assert.equal(made.status, 0, made.stderr);
  const pages = readdirSync(out).filter((name) => name.endsWith(".html"));
  for (const name of ["index", "start", "models", "clients", "api", "operations", "migrating", "gpu", "architecture"]) assert.ok(pages.includes(`${name}.html`), name);
  // A document that the list of pages lacks would be shown as a file.
  assert.deepEqual(pages.filter((name) => name.endsWith(".md.html")), []);
  for (const name of pages) {
    const html = readFileSync(join(out, name), "utf8");
    assert.doesNotMatch(html, /<script|<iframe|<link[^>]*href="(?!site\.css)|<img src="(?!images\/)/, `${name} takes something from elsewhere`);
    assert.equal(html.match(/<h1/g)?.length, 1, `${name}: one heading names the page`);
  }
  const speed = readFileSync(join(out, "speed.html"), "utf8");
  assert.equal(speed.match(/<figure>/g)?.length, 4);  // 7.2B: decode and prefill with states of f32, decode with those of f16; 1.5B: decode
  assert.match(speed, /<title>roofline, 1: /);
  rmSync(out, { recursive: true });
});

test("a link that leads nowhere is found", { skip: !LIBRARIES && "npm ci has not been run in web/" }, async () => {
  const { anchorOf, figureOf, render, targetOf } = await import("../../tools/site/pages.mjs");
  assert.deepEqual(targetOf("docs/api.md", "../SPEED.md#gpu"), { page: "speed.html#gpu" });
  assert.deepEqual(targetOf("docs/api.md", "operations.md"), { page: "operations.html" });
  assert.deepEqual(targetOf("docs/operations.md", "../deploy/haproxy.cfg"), { file: "deploy/haproxy.cfg" });
  assert.deepEqual(targetOf("README.md", "http://127.0.0.1:8000/"), { away: "http://127.0.0.1:8000/" });
  assert.equal(anchorOf("Keys and limits: a `word`"), "keys-and-limits-a-word");
  assert.equal(figureOf("| a | b |\n|---|---|\n"), "");
  const { html, headings } = render("README.md", "# One\n\n## Two\n\n## Two\n\n<script>alert(1)</script>\n");
  assert.deepEqual(headings.map(([, , anchor]) => anchor), ["one", "two", "two-1"]);
  assert.doesNotMatch(html, /<script/);
});

test("the figure of the kinds of weights is what the document's tables make", () => {
  const markdown = readFileSync(join(ROOT, "docs/quantisation.md"), "utf8");
  const measured = kindsOf(markdown);
  assert.ok(measured.models.includes("demo") && measured.kinds.length > 10);
  assert.deepEqual(measured.kinds.filter((kind) => kind.gigabytes === null || (kind.errors.includes(null) && kind.name !== "16 bits")), []);
  const svg = kindsPlot(measured);
  assert.equal(svg, readFileSync(join(ROOT, "docs/images/quantisation.svg"), "utf8"), "node tools/site/figures.mjs draws it anew");
});

test("a kind's dots stand further right the larger its error is, and gaps are told", () => {
  const tables = `| kind | 7.2B | for whom |\n|---|---|---|\n| \`a\` | 8.1 GB | all |\n| \`b\` | 4 GB | few |\n
| kind | decode 1 |\n|---|---|\n| \`a\` | 1,404 |\n
| kind | error of m | right |\n|---|---|---|\n| \`b\` | 0.5 | 3 |\n| \`a\` | 0.004 | 9 |\n`;
  assert.deepEqual(kindsOf(tables), { models: ["m"], kinds: [
    { name: "a", gigabytes: 8.1, speed: 1404, errors: [0.004] }, { name: "b", gigabytes: 4, speed: null, errors: [0.5] }] });
  const svg = kindsPlot(kindsOf(tables));
  const dots = [...svg.matchAll(/<circle cx="([\d.]+)"[^>]*><title>(\w), m: ([\d.]+)/g)];
  assert.deepEqual(dots.map(([, , name, error]) => [name, error]), [["a", "0.004"], ["b", "0.5"]]);
  assert.ok(Number(dots[0][1]) < Number(dots[1][1]));
  assert.equal(svg.match(/not measured/g)?.length, 1);
  assert.throws(() => kindsOf("| kind |\n|---|\n"), /no table has a column 'for whom'/);
});
