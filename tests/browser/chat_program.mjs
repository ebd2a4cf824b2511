// Steps of the chat page against the program with the demo model.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { SETTLED, ask, button, dialogAnswer, download, says, upload } from "./chat_page.mjs";
import { openPage } from "./rig.mjs";

// `folder`: for the sessions of the server and what the page downloads.
export function programSteps({ browser, program, models, folder }) {
  async function startProgram(flags = []) {
    const child = spawn(program, ["serve", "--model", join(models, "fulmar-demo.safetensors"), "--port", "0", "--state-db-path", join(folder, "sessions.db"), ...flags],
      { stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    const address = await new Promise((resolve, reject) => {
      const take = (piece) => {
        text += piece;
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(text);
        if (found) resolve(`${found[0]}/`);
      };
      child.stdout.on("data", take);
      child.stderr.on("data", take);
      child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${text}`)));
    });
    return { address, stop: () => new Promise((resolve) => { child.on("exit", resolve); child.kill("SIGTERM"); }) };
  }

  async function onProgram(use) {
    const server = await startProgram();
    const page = await openPage(browser, server.address);
    try {
      await button(page, "Settings").click();
      await page.getByLabel("Preset").selectOption("Greedy");
      await page.keyboard.press("Escape");
      await use(page, server);
      assert.deepEqual(page.troubles, []);
    } finally {
      await page.context().close();
      await server.stop();
    }
  }

  return [
    ["the program: a conversation goes on from its state, on any branch", () => onProgram(async (page) => {
      await page.getByText("Reverse: fulmar").waitFor();
      await ask(page, "My name is Ada.");
      await ask(page, "What is my name?");
      await says(page, 1, /Ada/);
      await page.locator(".figures", { hasText: /fed 23, reused 44/ }).waitFor();
      await page.locator(".turn.user").first().hover();
      await page.locator(".turn.user").first().getByRole("button", { name: "Edit and send again" }).click();
      await page.getByLabel("Text of the turn").fill("My name is Bob.");
      await page.keyboard.press("Control+Enter");
      await page.getByText("2/2").waitFor();
      await page.locator(SETTLED).waitFor();
      await ask(page, "What is my name?");
      await says(page, 1, /Bob/);
      await page.locator(".turn.user").first().hover();
      await page.locator(".turn.user").first().getByRole("button", { name: "Branch before" }).click();
      await page.locator(".turn.user", { hasText: "My name is Ada." }).waitFor();
      await button(page, "Answer again").last().click();
      await page.waitForFunction(() => document.querySelectorAll(".branches").length === 2);
      await page.locator(SETTLED).nth(1).waitFor();
      await says(page, 1, /Ada/);  // each branch has its own state
      await button(page, "Probabilities").last().click();
      await page.locator(".tokens button").first().waitFor();
      await page.locator(".tokens", { hasText: /Your name is Ada/ }).waitFor();  // scored by the server
    })],
    ["the program: states and models come and go", () => onProgram(async (page) => {
      await ask(page, "My name is Eve.");
      await button(page, "Models and states").click();
      const state = await download(page, folder, () => button(page, "Download").click());
      await upload(page, () => button(page, "Send a tuned state").click(), join(models, "fulmar-demo-pirate.state.pth"));
      await page.getByRole("button", { name: "Delete fulmar-demo-pirate.state" }).waitFor();
      await page.getByRole("radio", { name: "fulmar-demo fulmar-demo-pirate.state" }).waitFor();
      await page.getByLabel("File on the server").fill(join(models, "fulmar-demo.safetensors"));
      await page.getByLabel("Name", { exact: true }).fill("twin");
      await button(page, "Load").click();
      await page.getByRole("radio", { name: "twin", exact: true }).waitFor();
      await button(page, "Remove twin").click();
      await dialogAnswer(page.locator("dialog").last().page(), null, "Remove");
      await page.getByRole("radio", { name: "twin", exact: true }).waitFor({ state: "detached" });
      await upload(page, () => button(page, "Continue from a file").click(), state);
      await page.getByText(/Goes on from the state in/).waitFor();
      await ask(page, "What is my name?");
      await says(page, -1, /Eve/);  // the state in the file knows what was said
    })],
    ["the program: a password server lets the page in and asks at once", async () => {
      const server = await startProgram(["--password", "hush"]);
      const page = await openPage(browser, server.address);
      try {
        await dialogAnswer(page, "hush", "Continue");
        await page.locator("dialog").waitFor({ state: "detached" });
        await ask(page, "What is 12 + 30?");
        await says(page, 0, /42/);
      } finally {
        await page.context().close();
        await server.stop();
      }
    }],
  ];
}
