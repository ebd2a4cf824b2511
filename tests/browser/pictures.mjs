// Makes the pictures of the documents anew, from the program with the demo model:
//   node pictures.mjs PROGRAM MODELS_FOLDER DOCS_FOLDER
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openBrowser, openPage, pictures } from "./rig.mjs";

const [program, models, docs] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "fulmar-pictures-"));
const inDocs = pictures(docs);
const inImages = pictures(join(docs, "images"));
const children = [];

async function start(flags) {
  const child = spawn(program, flags, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  return new Promise((resolve) => {
    let text = "";
    child.stdout.on("data", (piece) => {
      text += piece;
      const found = /http:\/\/127\.0\.0\.1:\d+\//.exec(text);
      if (found) resolve(found[0]);
    });
  });
}

async function ask(page, text) {
  const settled = page.locator(".turn.assistant:not([data-status=streaming])");
  const before = await settled.count();
  await page.fill("#prompt", text);
  await page.keyboard.press("Enter");
  await settled.nth(before).waitFor();
}

async function converse(page) {
  await page.getByText("What would you like to ask?").waitFor();
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("Preset").selectOption("Greedy");
  await page.getByLabel("Thinking").selectOption({ label: "on" });
  await page.keyboard.press("Escape");
  await ask(page, "How do I start the server?");
  await page.getByRole("button", { name: "New chat" }).click();
  await ask(page, "Sort: pear, apple, fig");
  await page.getByRole("button", { name: "New chat" }).click();
  await ask(page, "My name is Ada.");
  await ask(page, "What is my name?");
  await ask(page, "What is 123 + 456?");
  await page.locator(".thinking summary").last().click();
}

async function chatPictures(browser, address) {
  for (const [name, colorScheme, width, height] of [["chat", "light", 1280, 800], ["chat-dark", "dark", 1280, 800], ["chat-phone", "light", 390, 780]]) {
    const page = await openPage(browser, address, { colorScheme, viewport: { width: 1280, height } });
    await converse(page);
    await page.setViewportSize({ width, height });
    await page.mouse.move(5, 5);
    await page.waitForTimeout(400);
    await inImages(page, name);
    await page.context().close();
  }
}

async function dashboardPictures(browser, address) {
  const begin = (name, more = {}) => fetch(`${address}api/workers/start`, { method: "POST", body: JSON.stringify({ model_path: "fulmar-demo.safetensors", restart: "on-failure", name, ...more }) });
  await begin("chat");
  await begin("batch");
  const load = async () => {
    const end = Date.now() + 40_000;
    while (Date.now() < end) {
      await fetch(`${address}v1/completions`, { method: "POST", body: JSON.stringify({ prompt: "Count from 1 to 60", max_tokens: 160, temperature: 0 }) }).then((answer) => answer.text()).catch(() => {});  // the crash cuts one
      await new Promise((resolve) => setTimeout(resolve, 700 * Math.random()));
    }
  };
  await new Promise((resolve) => setTimeout(resolve, 4000));
  const work = Promise.all([load(), load(), load()]);
  setTimeout(async () => {
    const [one] = await (await fetch(`${address}api/workers`)).json();
    process.kill(one.pid, "SIGSEGV");
  }, 20_000);
  await work;
  for (const [name, colorScheme, width, height] of [["dashboard", "light", 1280, 1120], ["dashboard-dark", "dark", 1280, 1120], ["dashboard-phone", "light", 390, 844]]) {
    const page = await openPage(browser, address, { colorScheme, viewport: { width, height } });
    await page.locator(".chart canvas").first().waitFor();
    await page.waitForTimeout(1500);
    await (name === "dashboard" ? inDocs : inImages)(page, name);
    await page.context().close();
  }
}

const browser = await openBrowser();
try {
  await chatPictures(browser, await start(["serve", "--model", join(models, "fulmar-demo.safetensors"), "--port", "0", "--state-db-path", join(folder, "s.db")]));
  await dashboardPictures(browser, await start(["control", "--port", "0", "--models-dir", models, "--sessions-dir", folder]));
} finally {
  await browser.close();
  for (const child of children) child.kill("SIGTERM");
  await Promise.all(children.map((child) => new Promise((resolve) => (child.exitCode === null ? child.on("exit", resolve) : resolve()))));
  rmSync(folder, { recursive: true, force: true });
}
