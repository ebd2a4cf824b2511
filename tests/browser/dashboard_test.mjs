// Drives the dashboard in Chromium against a real control plane and the demo model:
//   node dashboard_test.mjs PROGRAM MODELS_FOLDER ARTIFACTS_FOLDER
// Exit code 77 means that something it needs is not installed.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const SKIPPED = 77;
const [program, models, artifacts] = process.argv.slice(2);
const browserPath = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync);

function skip(reason) {
  console.log(`SKIPPED: ${reason}`);
  process.exit(SKIPPED);
}

const node = Number(process.versions.node.split(".")[0]);
if (node < 20) skip(`playwright-core wants Node.js 20 or later, this is ${process.versions.node}`);
if (!browserPath) skip("chromium is not installed");
if (!existsSync(program)) skip(`no program at ${program}`);
const require = createRequire(import.meta.url);
let playwright;
let axe;
try {
  playwright = require("playwright-core");
  axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
} catch {
  skip("node modules are missing: run npm ci in tests/browser");
}

// Starts the control plane on a free port; resolves with its address once it says so.
function startControl(stateFolder) {
  const child = spawn(program, ["control", "--port", "0", "--models-dir", models, "--state-dir", stateFolder],
    { stdio: ["ignore", "pipe", "pipe"] });
  const log = [];
  child.stderr.on("data", (text) => log.push(text));
  const ready = new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (piece) => {
      text += piece;
      const found = text.match(/http:\/\/\S+\//);
      if (found) resolve(found[0]);
    });
    child.on("exit", (code) => reject(new Error(`control plane ended with ${code}: ${log.join("")}`)));
  });
  return { child, ready, log };
}

async function isAccessible(page, where) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const texts = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target).join(" ")}`);
  assert.deepEqual(texts, [], `accessibility of ${where}`);
}

const shoot = (page, name) => page.screenshot({ path: join(artifacts, `${name}.png`), fullPage: false });
const step = (text) => console.log(`- ${text}`);

async function startWorker(page) {
  step("the form names what is wrong, then starts the worker");
  await page.getByRole("button", { name: "Start a worker" }).first().click();
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator("#problem-model_path", { hasText: /\S/ }).waitFor();
  await page.fill("[name=model_path]", "no-such-file");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator("#problem-model_path", { hasText: "no-such-file" }).waitFor();
  await page.selectOption("#picker", { label: await page.locator("#picker option", { hasText: "fulmar-demo.safetensors" }).textContent() });
  assert.equal(await page.inputValue("[name=model_path]"), "fulmar-demo.safetensors");
  await shoot(page, "start-form");
  await isAccessible(page, "the start form");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator(".badge.ready").waitFor({ timeout: 60_000 });
}

async function chat(page) {
  step("a chat streams");
  await page.fill("#prompt", "What is 12 + 30?");
  await page.keyboard.press("Enter");
  await page.locator("#play-figures", { hasText: "first token" }).waitFor({ timeout: 30_000 });
  await page.locator("#stop-stream").waitFor({ state: "hidden", timeout: 30_000 });
  const answer = await page.locator("#answer").textContent();
  assert.match(answer, /42/, `the demo model adds; it said: ${answer}`);
}

async function stopsOnRequest(page) {
  step("a completion streams and can be stopped");
  await page.getByLabel("Completion").check();
  await page.fill("#prompt", "1 2 3 4 5");
  await page.fill("[name=max_tokens]", "20000");
  await page.locator("#play button[type=submit]").click();
  await page.locator("#answer:not(:empty)").waitFor({ timeout: 30_000 });
  await page.keyboard.press("Escape");
  await page.locator("#stop-stream").waitFor({ state: "hidden", timeout: 10_000 });
}

async function chartMoves(page) {
  step("the chart shows the tokens");
  await page.waitForFunction(() => {
    const label = document.querySelector('[data-figure="ttft"] svg').getAttribute("aria-label") ?? "";
    const path = document.querySelector('[data-figure="tokens"] path')?.getAttribute("d") ?? "";
    return label.includes("ms") && path.split("L").length > 1;
  }, null, { timeout: 30_000 });
}

async function sessionsComeAndGo(page, address) {
  step("a session appears and is deleted");
  const [worker] = await (await fetch(`${address}api/workers`)).json();
  const talked = await fetch(`${address}state/chat/completions`, {
    method: "POST", body: JSON.stringify({ contents: ["User: Hi\n\nAssistant:"], session_id: "browser-test", max_tokens: 4 }),
  });
  if (talked.status === 404) return step("  (this worker has no session routes)");
  assert.equal(talked.status, 200, `${worker.worker_id}: ${await talked.text()}`);
  await page.getByRole("tab", { name: "Sessions" }).click();
  await page.getByRole("button", { name: "Delete session browser-test" }).click();
  await page.getByRole("button", { name: "Delete session browser-test" }).waitFor({ state: "detached" });
}

async function logFollows(page) {
  step("the log is there; tabs obey the arrow keys");
  await page.getByRole("tab", { name: "Playground" }).click();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.locator("#tab-log").getAttribute("aria-selected"), "true");
  await page.locator("#log", { hasText: "http://" }).waitFor();
  await shoot(page, "log");
  await page.getByRole("tab", { name: "Playground" }).click();
}

async function looks(browser, address) {
  step("light and dark, wide and narrow");
  for (const [name, colorScheme, width, height] of [
    ["dashboard-light", "light", 1280, 1000], ["dashboard-dark", "dark", 1280, 1000], ["dashboard-phone", "light", 390, 844],
  ]) {
    const page = await browser.newPage({ colorScheme, viewport: { width, height } });
    await page.goto(address);
    await page.locator(".badge").waitFor();
    await page.locator(".chart path").first().waitFor({ state: "attached" });
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(overflow <= 0, `${name} is ${overflow} pixels too wide`);
    await shoot(page, name);
    await isAccessible(page, name);
    if (name === "dashboard-phone") {
      await page.locator("#detail").scrollIntoViewIfNeeded();
      await shoot(page, "dashboard-phone-playground");
    }
    await page.close();
  }
}

async function stopWorker(page) {
  step("the worker stops");
  await page.getByRole("button", { name: /^Stop wkr-/ }).click();
  await page.locator(".badge.exited").waitFor({ timeout: 15_000 });
}

mkdirSync(artifacts, { recursive: true });
const stateFolder = mkdtempSync(join(tmpdir(), "fulmar-browser-"));
const control = startControl(stateFolder);
let browser;
let failed = false;
try {
  const address = await control.ready;
  browser = await playwright.chromium.launch({
    executablePath: browserPath,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const page = await browser.newPage({ viewport: { width: 1280, height: 1000 } });
  const troubles = [];
  page.on("pageerror", (error) => troubles.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(address) && !request.url().startsWith("data:")) troubles.push(`left the machine: ${request.url()}`);
  });
  await page.goto(address);
  await page.locator("#no-workers").waitFor();
  await shoot(page, "empty");
  await startWorker(page);
  await chat(page);
  await stopsOnRequest(page);
  await chartMoves(page);
  await shoot(page, "running");
  await sessionsComeAndGo(page, address);
  await logFollows(page);
  await looks(browser, address);
  await stopWorker(page);
  assert.deepEqual(troubles, []);
  console.log("passed");
} catch (problem) {
  failed = true;
  console.error(problem);
  console.error(control.log.join("").slice(-4000));
} finally {
  await browser?.close();
  control.child.kill("SIGTERM");
  await new Promise((resolve) => (control.child.exitCode === null ? control.child.on("exit", resolve) : resolve()));
  rmSync(stateFolder, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);
