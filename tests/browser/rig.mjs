// What the browser tests share: a browser, what they need of it, pictures, and a list of steps. Exit code 77 means that
// something which is needed is not installed.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const SKIPPED = 77;
const PATIENCE_MS = 60_000;
// A name of this machine that a browser takes for another one, without the rights of a loopback address.
export const ELSEWHERE = "gpu-box.test";

export function skip(reason) {
  console.log(`SKIPPED: ${reason}`);
  process.exit(SKIPPED);
}

const require = createRequire(import.meta.url);
let playwright;
let axe;

export async function openBrowser() {
  const browserPath = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync);
  const node = Number(process.versions.node.split(".")[0]);
  if (node < 20) skip(`playwright-core wants Node.js 20 or later, this is ${process.versions.node}`);
  if (!browserPath) skip("chromium is not installed");
  try {
    playwright = require("playwright-core");
    axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
  } catch {
    skip("node modules are missing: run npm ci in tests/browser");
  }
  return playwright.chromium.launch({
    executablePath: browserPath,
    timeout: 180_000,  // the first start reads it from a disk that may be slow
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
      `--host-resolver-rules=MAP ${ELSEWHERE} 127.0.0.1`],
  });
}

// A page in a storage of its own, without animations: what axe judges stands still. `troubles` collects script errors, refusals of the page's policy, and requests that
// leave the server.
export async function openPage(browser, address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, reducedMotion: "reduce", permissions: ["clipboard-read", "clipboard-write"], ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(options.patience ?? PATIENCE_MS);
  page.troubles = [];
  page.on("pageerror", (error) => page.troubles.push(String(error)));
  page.on("console", (message) => { if (message.text().includes("Content Security Policy")) page.troubles.push(message.text()); });
  page.on("request", (request) => {
    if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(address)) page.troubles.push(`left the machine: ${request.url()}`);
  });
  await page.goto(address);
  return page;
}

// Everything that axe finds, in `page` as it stands.
export async function isAccessible(page, where) {
  // The page's own policy lets no script in; the test's comes through the debugger.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const texts = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target).join(" ")}`);
  assert.deepEqual(texts, [], `accessibility of ${where}`);
}

export async function fits(page, where) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${where} is ${wide} pixels too wide`);
}

export function pictures(folder) {
  mkdirSync(folder, { recursive: true });
  return (page, name) => page.screenshot({ path: join(folder, `${name}.png`) });
}

// Waits until `check` no longer throws: what a page shows and what a server has heard follow an act, they do not come with it.
export async function eventually(check) {
  for (const until = performance.now() + PATIENCE_MS; ;) {
    try {
      return await check();
    } catch (problem) {
      if (performance.now() > until) throw problem;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

// Runs [title, function] one after the other; a name on the command line picks those that contain it. Steps that stand
// alone may have `tries`: a browser on a busy machine stumbles now and then, and what it stumbled over is printed.
export async function runSteps(steps, only, tries = 1) {
  let failed = 0;
  for (const [title, step] of steps) {
    if (only && !title.includes(only)) continue;
    if (!await runStep(title, step, tries)) failed += 1;
  }
  return failed;
}

async function runStep(title, step, tries) {
  for (let left = tries - 1; left >= 0; --left) {
    try {
      await step();
      console.log(`- ${title}`);
      return true;
    } catch (problem) {
      console.error(`- ${left > 0 ? "STUMBLED" : "FAILED"}: ${title}\n${problem.stack}`);
    }
  }
  return false;
}
