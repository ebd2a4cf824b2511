// Drives the dashboard in Chromium against a real control plane and the demo model:
//   node dashboard_test.mjs PROGRAM MODELS_FOLDER ARTIFACTS_FOLDER [WORDS_OF_A_STEP]
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually, fits, isAccessible, openBrowser, openPage, pictures, runSteps, skip } from "./rig.mjs";

const [program, models, artifacts, only] = process.argv.slice(2);
if (!existsSync(program)) skip(`no program at ${program}`);
const browser = await openBrowser();
const shoot = pictures(artifacts);

// Starts the control plane on a free port; resolves with its address once it says so.
function startControl(stateFolder) {
  const child = spawn(program, ["control", "--port", "0", "--models-dir", models, "--sessions-dir", stateFolder],
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

const stateFolder = mkdtempSync(join(tmpdir(), "fulmar-browser-"));
const control = startControl(stateFolder);
const address = await control.ready;
const page = await openPage(browser, address, { viewport: { width: 1280, height: 1000 } });

const button = (name) => page.getByRole("button", { name, exact: true });
const act = async (title, item) => {
  await page.getByRole("button", { name: `Actions for ${title}` }).click();
  await page.getByRole("menuitem", { name: item, exact: true }).click();
};
const confirm = (action) => page.locator("dialog").getByRole("button", { name: action, exact: true }).click();
const badge = (title, text) => page.locator("tr", { hasText: title }).locator(".badge", { hasText: text });
const workers = async () => (await fetch(`${address}api/workers`)).json();
const home = async () => { await page.goto(`${address}#`); await page.locator(".fleet").first().waitFor(); };
const open = async (title) => { await home(); await page.getByRole("link", { name: title, exact: true }).click(); await page.locator("#worker-title").waitFor(); };

async function startWorker(name, more = {}) {
  await button("Start a worker").first().click();
  await page.selectOption("#picker", "fulmar-demo.safetensors");
  await page.fill("[name=name]", name);
  for (const [field, value] of Object.entries(more)) await page.fill(`[name=${field}]`, value);
  await button("Start").click();
  await page.locator("dialog").waitFor({ state: "detached" });
}

const steps = [
  ["without a worker it says what to do", async () => {
    await page.getByRole("heading", { name: "No worker yet" }).waitFor();
    await page.locator(".pulse.idle", { hasText: "No worker" }).waitFor();
    await isAccessible(page, "the empty dashboard");
    await shoot(page, "dashboard-empty");
  }],
  ["the form says in words what is wrong, beside the field, then starts the worker under its name", async () => {
    await button("Start a worker").first().click();
    await button("Start").click();
    await page.getByText("Wanted: a model file.").waitFor();
    await page.fill("[name=model_path]", "no-such-file");
    await page.fill("[name=port]", "70000");
    await button("Start").click();
    await page.getByText("Wanted: 1 to 65535.").waitFor();
    await page.fill("[name=port]", "");
    await button("Start").click();
    const problem = page.locator(".field", { has: page.locator("[name=model_path]") }).locator(".problem");
    await problem.getByText("no-such-file").waitFor();
    assert.doesNotMatch(await problem.textContent(), /model_path/, "the label says which field it is");
    await isAccessible(page, "the start form");
    await shoot(page, "dashboard-start");
    await page.keyboard.press("Escape");
    await startWorker("chat");
    await badge("chat", "ready").waitFor({ timeout: 120_000 });
    await page.locator(".pulse.good", { hasText: "1 of 1 ready" }).waitFor();
    await startWorker("second");
    await badge("second", "ready").waitFor({ timeout: 120_000 });
    await button("Start a worker").first().click();
    await page.selectOption("#picker", "fulmar-demo.safetensors");
    await page.fill("[name=name]", "chat");
    await button("Start").click();
    await page.getByText("'chat' is taken by worker").waitFor();
    await page.keyboard.press("Escape");
  }],
  ["the playground streams Markdown by the chat page's parts, and tells no rate of a burst", async () => {
    await open("chat");
    await page.fill("#prompt", "What is 12 + 30?");
    await page.keyboard.press("Enter");
    await page.locator("#play-figures", { hasText: "first after" }).waitFor();
    await page.locator(".answer .markdown", { hasText: "42" }).waitFor();
    const figures = await page.locator("#play-figures").textContent();
    const tokens = Number(/(\d+) tokens?/.exec(figures)[1]);
    assert.ok(tokens > 20 || !figures.includes("tokens/s"), figures);
  }],
  ["a completion streams and can be stopped", async () => {
    await page.getByLabel("Completion").check();
    await page.fill("#prompt", "1 2 3 4 5");
    await page.fill("[name=max_tokens]", "20000");
    await button("Send").click();
    await page.locator(".answer .growing:not(:empty)").waitFor();
    await page.keyboard.press("Escape");
    await button("Send").waitFor();
  }],
  ["charts have axes, colours that stay, and values under the pointer", async () => {
    await home();
    await page.waitForFunction(() => /chat \d/.test(document.querySelector('.chart [role=img]').getAttribute("aria-label")));
    const legend = page.locator(".chart").first().locator(".u-legend");
    await page.waitForFunction(() => /\d/.test(document.querySelector(".u-legend .u-series:nth-child(2) .u-value").textContent));
    const box = await page.locator(".chart").first().locator(".u-over").boundingBox();
    const timeAt = async (share) => {
      await page.mouse.move(box.x + box.width * share, box.y + box.height / 2);
      return legend.locator(".u-series").first().locator(".u-value").textContent();
    };
    await eventually(async () => assert.ok(await timeAt(0.01) < await timeAt(0.99), "the legend tells the values under the pointer"));
    await page.mouse.move(0, 0);
    const colour = await legend.locator(".u-marker").nth(1).evaluate((mark) => mark.style.borderColor || getComputedStyle(mark).borderColor);
    await button("1 h").click();
    await button("24 h").click();
    await button("15 min").click();
    await eventually(async () => assert.equal(await legend.locator(".u-marker").nth(1).evaluate((mark) => mark.style.borderColor || getComputedStyle(mark).borderColor), colour));
  }],
  ["sessions are listed, moved to another worker, and deleted", async () => {
    const [chat] = await workers();
    const talked = await fetch(`${address}api/workers/${chat.worker_id}/proxy/state/chat/completions`, {
      method: "POST", body: JSON.stringify({ contents: ["User: My name is Ada.\n\nAssistant:"], session_id: "trip/1", max_tokens: 8, temperature: 0 }),
    });
    assert.equal(talked.status, 200, await talked.text());
    await open("chat");
    await page.getByRole("tab", { name: "Sessions" }).click();
    await page.getByRole("row", { name: "trip/1" }).waitFor();
    await act("trip/1", "Move to second");
    await page.getByText("No session.").waitFor();
    await open("second");
    await page.getByRole("tab", { name: "Sessions" }).click();
    await page.getByRole("row", { name: "trip/1" }).waitFor();
    await act("trip/1", "Delete");
    await confirm("Delete");
    await page.getByText("No session.").waitFor();
  }],
  ["the log is searched; tabs obey the arrow keys; figures are read for people", async () => {
    await open("chat");
    await page.getByRole("tab", { name: "Playground" }).focus();
    await page.keyboard.press("ArrowRight");
    await page.getByRole("tab", { name: "Log", selected: true }).waitFor();
    await page.locator(".log", { hasText: "http://" }).waitFor();
    await page.getByLabel("Search").fill("no line has this");
    await page.getByText(/^0 of \d+ lines$/).waitFor();
    await isAccessible(page, "the log");
    await page.getByRole("tab", { name: "Figures" }).click();
    await page.getByText("Prompt tokens reused").waitFor();
    await page.getByText("Prefix hits").waitFor();
    await page.getByText(/^\d+ of [1-9]\d* taken$/).waitFor();
    await page.getByText("Drafts accepted").waitFor();
  }],
  ["a crash is told with its reason, and is still told when the worker is back", async () => {
    const chat = (await workers()).find((one) => one.name === "chat");
    await home();
    process.kill(chat.pid, "SIGSEGV");
    await badge("chat", "restarted once").waitFor({ timeout: 120_000 });
    await page.locator(".events .bad", { hasText: /crashed chat.*signal/ }).waitFor();
    await page.locator(".events .bad summary").first().click();
    await page.locator(".events pre").first().waitFor();
    await shoot(page, "dashboard-crash");
  }],
  ["a stop is confirmed; what was stopped can be started again or removed", async () => {
    await act("second", "Stop");
    await confirm("Cancel");
    await badge("second", "ready").waitFor();
    await act("second", "Stop");
    await confirm("Stop");
    await badge("second", "stopped").waitFor();
    await act("second", "Start again");
    await confirm("Restart");
    await badge("second", "ready").waitFor({ timeout: 120_000 });
    await act("second", "Drain and stop");
    await badge("second", "stopped").waitFor({ timeout: 120_000 });
    await act("second", "Remove");
    await confirm("Remove");
    await page.waitForFunction(() => document.querySelectorAll(".fleet tbody tr").length === 1);
  }],
  ["all workers restart, one after the other", async () => {
    const before = (await workers())[0].pid;
    await button("More").click();
    await page.getByRole("menuitem", { name: "Restart all workers" }).click();
    await confirm("Restart all");
    await page.waitForFunction(async ({ path, pid }) => (await (await fetch(path)).json())[0].pid !== pid, { path: `${address}api/workers`, pid: before });
    await badge("chat", "ready").waitFor({ timeout: 120_000 });
  }],
  ["a GPU that is not there is said, and so is what runs instead", async () => {
    const gpus = (await (await fetch(`${address}api/system`)).json()).gpus;
    if (gpus.length > 0) return;
    await fetch(`${address}api/workers/start`, { method: "POST", body: JSON.stringify({ model_path: "fulmar-demo.safetensors", gpu_id: 0, name: "pinned" }) });
    await page.locator("tr", { hasText: "pinned" }).getByText("no GPU 0: runs on the CPU").waitFor();
    await page.getByRole("alert").getByText("which this machine does not have").waitFor();
    await badge("pinned", "ready").waitFor({ timeout: 120_000 });
  }],
  ["one that fails is counted, and its reason is whole on a phone", async () => {
    await fetch(`${address}api/workers/start`, { method: "POST", body: JSON.stringify({ model_path: "fulmar-demo.safetensors", tokenizer_path: "demo-suite.jsonl", name: "broken" }) });
    await badge("broken", "failed").waitFor({ timeout: 120_000 });
    await page.locator(".pulse.warn", { hasText: "2 of 3 ready" }).waitFor();
    await page.setViewportSize({ width: 320, height: 700 });
    const cut = await badge("broken", "failed").evaluate((place) => place.scrollWidth > place.clientWidth + 1 || place.getBoundingClientRect().right > innerWidth);
    assert.equal(cut, false, "the reason is clipped");
    await page.getByRole("alert").getByText("broken has failed").waitFor();
    await open("chat");
    const menu = await page.locator(".head").first().getByRole("button").boundingBox();
    assert.ok(menu.x + menu.width > 280, "the worker's menu is in its corner");
    await page.setViewportSize({ width: 1280, height: 1000 });
    await home();
    await act("broken", "Start again");
    await confirm("Restart");
    await badge("broken", "failed").waitFor({ timeout: 120_000 });
  }],
  ["light and dark, wide and narrow", async () => {
    for (const [name, colorScheme, width, height] of [
      ["dashboard-light", "light", 1280, 1000], ["dashboard-dark", "dark", 1280, 1000], ["dashboard-phone", "light", 390, 844], ["dashboard-phone-320", "dark", 320, 640],
    ]) {
      const other = await openPage(browser, address, { colorScheme, viewport: { width, height } });
      await other.locator(".badge").first().waitFor();
      await other.locator(".chart canvas").first().waitFor();
      await fits(other, name);
      await shoot(other, name);
      await isAccessible(other, name);
      await other.locator(".fleet a").first().click();
      await other.locator("#worker-title").waitFor();
      await fits(other, `${name}, one worker`);
      await isAccessible(other, `${name}, one worker`);
      await shoot(other, `${name}-worker`);
      assert.deepEqual(other.troubles, []);
      await other.context().close();
    }
  }],
  ["a worker that has failed is removed", async () => {
    await act("broken", "Remove");
    await confirm("Remove");
    await page.waitForFunction(() => document.querySelectorAll(".fleet tbody tr").length === 2);
    await page.locator(".pulse.good", { hasText: "2 of 2 ready" }).waitFor();
  }],
  ["a worker's chat page is reached through the control plane", async () => {
    const chat = (await workers()).find((one) => one.name === "chat");
    const other = await openPage(browser, `${address}api/workers/${chat.worker_id}/proxy/`);
    await other.fill("#prompt", "What is 12 + 30?");
    await other.keyboard.press("Enter");
    await other.locator(".turn.assistant .words", { hasText: "42" }).waitFor();
    await other.context().close();
  }],
  ["the control plane's end is told", async () => {
    assert.deepEqual(page.troubles, []);
    control.child.kill("SIGTERM");
    await page.locator(".pulse.bad", { hasText: "does not answer" }).waitFor();
  }],
];

const failed = await runSteps(steps, only);
if (failed > 0) console.error(control.log.join("").slice(-4000));
await browser.close();
control.child.kill("SIGTERM");
await new Promise((resolve) => (control.child.exitCode === null ? control.child.on("exit", resolve) : resolve()));
rmSync(stateFolder, { recursive: true, force: true });
console.log(failed === 0 ? "passed" : `${failed} steps failed`);
process.exit(failed === 0 ? 0 : 1);
