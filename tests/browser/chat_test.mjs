// Drives the chat page in Chromium: against a scripted server for everything that a model must not decide, and against the
// program with the demo model for the rest:
//   node chat_test.mjs PROGRAM MODELS_FOLDER ARTIFACTS_FOLDER [WORDS_OF_A_STEP]
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SETTLED, answers, ask, button, dialogAnswer, download, menu, newChat, says, upload } from "./chat_page.mjs";
import { programSteps } from "./chat_program.mjs";
import { startFakeServer } from "./fake_server.mjs";
import { ELSEWHERE, eventually, fits, isAccessible, openBrowser, openPage, pictures, runSteps } from "./rig.mjs";

const [program, models, artifacts, only] = process.argv.slice(2);
const browser = await openBrowser();
const shoot = pictures(artifacts);
const folder = mkdtempSync(join(tmpdir(), "fulmar-chat-"));

// A fresh page on a fresh scripted server; both end with `use`.
async function onFake(options, use) {
  const server = await startFakeServer(options.server);
  const page = await openPage(browser, server.address, options.page);
  try {
    await use(page, server);
    assert.deepEqual(page.troubles, [], "script errors, refusals of the policy, requests to elsewhere");
  } finally {
    await page.context().close();
    await server.close();
  }
}

const askAndCut = async (page, server) => {
  await page.fill("#prompt", "cut");
  await page.keyboard.press("Enter");
  await says(page, 0, /This is not/);
  server.cut();
};

const steps = [
  ["Markdown is rendered, HTML stays text, and no picture is fetched", () => onFake({}, async (page) => {
    await ask(page, "markdown please");
    const place = page.locator(".turn.assistant .words");
    for (const part of ["h1", "li", "td", "pre code .hljs-keyword", ".katex", "a[rel~=noopener]", ".code-copy"]) await place.locator(part).first().waitFor({ state: "attached" });
    assert.equal(await place.locator("img, script").count(), 0);
    await eventually(async () => assert.match(await place.textContent(), /<img src=x/));
    await eventually(async () => assert.equal(await page.title(), "markdown please · Fulmar"));
    const streamed = await place.innerText();
    await button(page, "Copy").first().click();
    await page.reload();
    await place.locator(".katex").first().waitFor();
    await place.locator(".hljs-keyword").first().waitFor();
    await eventually(async () => assert.equal(await place.innerText(), streamed, "the same whether it came in pieces or at once"));
    await shoot(page, "chat-markdown");
  })],
  ["conversations outlive a reload; they are found, renamed, pinned, filed and deleted", () => onFake({}, async (page) => {
    await ask(page, "alpha first");
    await newChat(page);
    await ask(page, "beta second");
    await page.reload();
    await page.locator(".turn.user", { hasText: "beta second" }).waitFor();
    await page.locator(".entry", { hasText: "alpha" }).click();
    await page.locator(".turn.user", { hasText: "alpha first" }).waitFor();
    await page.fill("#search", "said: beta");
    await page.waitForFunction(() => document.querySelectorAll(".entry").length === 1);
    await page.locator(".entry", { hasText: "beta" }).waitFor();  // found by what the answer said
    await page.fill("#search", "");
    await menu(page, "Actions for alpha first", "Rename");
    await dialogAnswer(page, "Gamma", "Save");
    await menu(page, "Actions for Gamma", "Pin");
    await page.getByRole("region", { name: "Pinned" }).getByText("Gamma").waitFor();
    await menu(page, "Actions for beta second", "Move to folder");
    await dialogAnswer(page, "Work", "Move");
    await page.getByRole("region", { name: "Work" }).getByText("beta second").waitFor();
    await menu(page, "Actions for Gamma", "Delete");
    await dialogAnswer(page, null, "Delete");
    await page.getByText("What would you like to ask?").waitFor();
    await eventually(async () => assert.equal(await page.locator(".entry").count(), 1));
  })],
  ["export and import keep turns and branches", () => onFake({}, async (page) => {
    await ask(page, "to be kept");
    await button(page, "Answer again").click();
    await page.getByText("2/2").waitFor();
    const readable = readFileSync(await download(page, folder, () => menu(page, "Actions for to be kept", "Export as Markdown")), "utf8");
    assert.match(readable, /^# to be kept\n\n## You\n\nto be kept\n/);
    const path = await download(page, folder, () => menu(page, "Actions for to be kept", "Export as JSON"));
    await menu(page, "Actions for to be kept", "Delete");
    await dialogAnswer(page, null, "Delete");
    await upload(page, () => menu(page, "All conversations", "Import from JSON"), path);
    await page.locator(".entry", { hasText: "to be kept" }).click();
    await page.getByText("2/2").waitFor();
    writeFileSync(join(folder, "other.json"), "{}");
    await upload(page, () => menu(page, "All conversations", "Import from JSON"), join(folder, "other.json"));
    await page.getByText("The file's format is 'undefined'").waitFor();
  })],
  ["a turn sends only what is new; edits and other answers are branches", () => onFake({}, async (page, server) => {
    await ask(page, "one");
    await ask(page, "two");
    const [first, second] = server.asked;
    assert.deepEqual(second.messages, [{ role: "user", content: "two" }], "the history stays on the server");
    assert.notEqual(first.session_id, second.session_id);
    await page.locator(".turn.user").last().hover();
    await page.locator(".turn.user").last().getByRole("button", { name: "Edit and send again" }).click();
    await page.getByLabel("Text of the turn").fill("two in other words");
    await page.keyboard.press("Control+Enter");
    await page.getByText("You said: two in other words").waitFor();
    assert.deepEqual(server.asked[2].messages, [{ role: "user", content: "two in other words" }], "forked from the first answer's state");
    await page.getByText("2/2").waitFor();
    await page.keyboard.press("Escape");
    await page.locator("body").press("Alt+ArrowLeft");
    await page.locator(".turn.user .words", { hasText: /^two$/ }).waitFor();
    await page.getByText("1/2").waitFor();
    await button(page, "Answer again").last().click();
    await page.waitForFunction(() => document.querySelectorAll(".branches").length === 2);
    await eventually(() => assert.equal(server.asked.length, 4));
  })],
  ["a server that has lost the state gets the history again", () => onFake({}, async (page, server) => {
    await ask(page, "one");
    server.sessions.clear();
    await ask(page, "two");
    assert.deepEqual(server.asked[1].messages.map((message) => message.content), ["one", "You said: one", "two"]);
  })],
  ["a turn can be copied, shown raw, deleted, and taken to a new conversation", () => onFake({}, async (page) => {
    await ask(page, "markdown");
    await page.locator(".turn.assistant").getByRole("button", { name: "Copy", exact: true }).last().click();
    await eventually(async () => assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^# A heading/));
    await menu(page, "More for this turn", "Raw text");
    await page.locator("pre.raw", { hasText: /^# A heading/ }).waitFor();
    await menu(page, "More for this turn", "Branch into a new conversation");
    await page.waitForFunction(() => document.querySelectorAll(".entry").length === 2);
    await menu(page, "More for this turn", "Delete");
    await dialogAnswer(page, null, "Delete");
    await page.waitForFunction(() => document.querySelectorAll(".turn.assistant").length === 0);
    await button(page, "Ask for an answer").click();
    await page.locator(SETTLED).waitFor();
  })],
  ["a code block can be copied", () => onFake({}, async (page) => {
    await ask(page, "markdown");
    await page.locator(".code-copy").click();
    await eventually(async () => assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "def double(x):\n    return 2 * x"));
  })],
  ["thinking is switched on in the settings, folded, and timed", () => onFake({}, async (page, server) => {
    await button(page, "Settings").click();
    await page.getByLabel("Thinking").selectOption({ label: "some" });
    await isAccessible(page, "the settings");
    await shoot(page, "chat-settings");
    await page.keyboard.press("Escape");
    await ask(page, "think");
    assert.equal(server.asked[0].think_type, "en");
    const thinking = page.locator("details.thinking");
    await thinking.locator("summary", { hasText: /Thought for [\d.]+ m?s/ }).waitFor();
    await eventually(async () => assert.equal(await thinking.getAttribute("open"), null));
    await thinking.locator("summary").click();
    await thinking.getByText("First this, then that.").waitFor();
  })],
  ["figures say what was fed and reused, and how many drafts were accepted", () => onFake({}, async (page) => {
    await ask(page, "one");
    await ask(page, "drafted");
    await page.locator(".figures", { hasText: "drafts" }).waitFor();
    const [plain, drafted] = await page.locator(".figures").allTextContents();
    assert.doesNotMatch(plain, /draft|reused/);
    assert.match(drafted, /75 % of 4 drafts accepted .* fed 30, reused 20/);
  })],
  ["presets set the sampling, and own ones are kept", () => onFake({}, async (page, server) => {
    await button(page, "Settings").click();
    await page.getByLabel("Preset").selectOption("Code");
    await eventually(async () => assert.equal(await page.getByLabel("Top k").inputValue(), "100"));
    await page.getByLabel("Temperature").fill("0.9");
    await button(page, "Save as a preset").click();
    await page.locator("dialog").last().getByLabel("Name").fill("Mine");
    await page.locator("dialog").last().getByRole("button", { name: "Save", exact: true }).click();
    await page.getByLabel("Temperature").fill("9");
    await page.getByText("Wanted 0 to 5.").waitFor();
    await page.getByLabel("JSON schema").fill("{");
    await page.getByText("This is not JSON").waitFor();
    await page.getByLabel("JSON schema").fill("");
    await page.keyboard.press("Escape");
    await ask(page, "hello");
    assert.equal(server.asked[0].temperature, 0.9);
    assert.equal(server.asked[0].top_k, 100);
    await page.reload();
    await button(page, "Settings").click();
    await page.locator("option", { hasText: "Mine" }).waitFor({ state: "attached" });
  })],
  ["a tuned state is picked in the settings", () => onFake({ server: { models: ["g1", "g1 poet", "g1 cook", "other"] } }, async (page, server) => {
    await button(page, "Settings").click();
    await page.getByLabel("Tuned state").selectOption("cook");
    await page.keyboard.press("Escape");
    await ask(page, "hello");
    assert.equal(server.asked[0].model, "g1 cook");
    await page.getByLabel("Model", { exact: true }).selectOption("other");
    await button(page, "Settings").click();
    await page.getByLabel("Preset").waitFor();
    assert.equal(await page.getByLabel("Tuned state").count(), 0, "this one has none");
  })],
  ["a model comes from the hub with its progress, and is loaded; a pull can be called off and says what failed", () => onFake({}, async (page, server) => {
    await button(page, "Models and states").click();
    const hub = page.getByLabel("From the server's hub");
    const get = async (name) => { await hub.fill(name); await button(page, "Get and load").click(); };
    await get("owner/none");
    await page.getByText("The hub has no such repository").waitFor();
    await get("owner/broken");
    await page.getByText("the checksum is a; wanted b").waitFor();
    await eventually(async () => assert.ok(await page.locator(".notes").evaluate((place) => place.matches(":popover-open")), "what went wrong is told above the dialog, in the top layer"));
    await shoot(page, "chat-note-above-dialog");
    await get("owner/slow");
    await page.getByText("weights.pth: 1.0 MiB of 10 MiB").waitFor();
    await isAccessible(page, "a pull under way");
    await shoot(page, "chat-pull");
    await button(page, "Call it off").click();
    await page.getByText("owner/slow: called off. What has come is kept.").waitFor();
    await page.waitForFunction(() => !document.querySelector(".progress"));
    await eventually(() => assert.ok(server.asked.some((one) => one.left === "owner/slow"), "the server is told by the connection's end"));
    await get("owner/fine");
    await page.getByText("weights is here and loaded.").waitFor();
    assert.deepEqual(server.asked.at(-1), { load: { model_filename: "weights.pth", model_viewname: "weights" } });
    await eventually(async () => assert.equal(await page.getByLabel("Model", { exact: true }).inputValue(), "weights", "it is chosen"));
  })],
  ["a stream that breaks off says so, and goes on where it was", () => onFake({}, async (page, server) => {
    await askAndCut(page, server);
    await page.getByText("The connection broke off before the answer was complete.").waitFor();
    await page.locator(".turn.assistant[data-status=cut]").waitFor();
    assert.deepEqual(await answers(page), ["This is not"]);
    await button(page, "Continue").click();
    await page.getByText("You said: more").waitFor();
    assert.match(server.asked[1].prompt, /User: cut\n\nAssistant: This is not $/);
    await says(page, 0, /^This is not You said: more/);
  })],
  ["what the chat route cannot do is asked for in the model's own form", () => onFake({ server: { template: "g1h" } }, async (page, server) => {
    await askAndCut(page, server);
    await button(page, "Continue").click();
    await page.getByText("You said: more").waitFor();
    const { prompt, stop, pad_zero: padZero } = server.asked[1];
    assert.deepEqual({ prompt, stop, padZero }, { prompt: "User✿cut✿\nBot✿This is not ", stop: ["✿"], padZero: true });
    await button(page, "Probabilities").click();
    await page.locator(".tokens button").first().waitFor();
    assert.doesNotMatch(await page.locator(".tokens").textContent(), /cut|Bot/, "the answer is scored, not what stands before it");
    await page.getByRole("tab", { name: "Batch" }).click();
    await page.getByPlaceholder("User✿{}✿\\nBot✿<think></think>", { exact: true }).waitFor();  // the server is asked for it
    await page.getByLabel("Prompts").fill("a");
    await button(page, "Run").click();
    await page.getByText("1 of 1 done").waitFor();
    assert.deepEqual(server.asked.at(-1).contents, ["User✿a✿\nBot✿<think></think>"]);
    assert.equal(server.asked.at(-1).pad_zero, true);
    await page.getByLabel("Template").fill("Q: {}\\nA:");
    await button(page, "Run").click();
    await page.waitForFunction(() => document.querySelectorAll(".batch-table .answer").length === 1);
    await eventually(() => assert.equal(server.asked.length, 4));
    assert.deepEqual([server.asked.at(-1).contents, server.asked.at(-1).pad_zero], [["Q: a\nA:"], false]);
  })],
  ["a message that could not be sent stays, and can be sent again", () => onFake({}, async (page, server) => {
    await ask(page, "fail please");
    await page.getByText("Request queue full").waitFor();
    await page.reload();
    await page.locator(".turn.user", { hasText: "fail please" }).waitFor();
    await page.route("**/v1/chat/completions", (route) => route.abort());
    await button(page, "Try again").click();
    await page.getByText("The server does not answer.").waitFor();
    await page.unroute("**/v1/chat/completions");
    assert.equal(server.asked.length, 1);
    page.troubles.length = 0;
  })],
  ["a reload in the middle of an answer says where it was cut", () => onFake({}, async (page) => {
    await page.fill("#prompt", "slow");
    await page.keyboard.press("Enter");
    await page.getByText("word25").waitFor();  // what has come is saved every second
    await page.reload();
    await page.getByText("This answer was cut off when the page closed.").waitFor();
    await says(page, 0, /^\s*word0 word1/);
    await button(page, "Continue").waitFor();
  })],
  ["stopping asks the server, which keeps the state", () => onFake({}, async (page, server) => {
    await page.fill("#prompt", "slow");
    await page.keyboard.press("Enter");
    await page.getByText("word2").waitFor();
    await page.keyboard.press("Escape");
    await page.locator(".turn[data-status=stopped]").waitFor();
    await ask(page, "next");
    assert.deepEqual(server.asked[1].messages, [{ role: "user", content: "next" }]);
  })],
  ["the end stays in sight while an answer grows, unless the reader scrolls up", () => onFake({ page: { viewport: { width: 390, height: 500 } } }, async (page) => {
    const fromEnd = () => page.locator(".scroll").evaluate((place) => place.scrollHeight - place.scrollTop - place.clientHeight);
    await ask(page, "stream 400 at 400");
    await page.locator(".katex").first().waitFor();
    await page.waitForFunction(() => { const place = document.querySelector(".scroll"); return place.scrollHeight - place.scrollTop - place.clientHeight < 5; });
    await page.fill("#prompt", "stream 400 at 200");
    await page.keyboard.press("Enter");
    await page.locator(".turn.running .words h2").first().waitFor();
    await page.locator(".scroll").hover();
    await page.mouse.wheel(0, -600);
    await button(page, "To the end").waitFor();
    await page.locator(".turn.running").waitFor({ state: "detached" });
    assert.ok(await fromEnd() > 100, "the reader is not dragged along");
    await button(page, "To the end").click();
    await page.waitForFunction(() => { const place = document.querySelector(".scroll"); return place.scrollHeight - place.scrollTop - place.clientHeight < 5; });
  })],
  ["an answer goes on while another conversation is open", () => onFake({}, async (page) => {
    await page.fill("#prompt", "stream 300 at 200");
    await page.keyboard.press("Enter");
    await page.locator(".turn.assistant .words h2").first().waitFor();
    await newChat(page);
    await ask(page, "meanwhile");
    await page.waitForTimeout(1800);
    await page.locator(".entry", { hasText: "stream 300" }).click();
    await page.locator(".turn.assistant[data-status=done]").waitFor();
    await page.locator(".turn.assistant .code").waitFor();
  })],
  ["a password is asked for at once, and never lies in localStorage", () => onFake({ server: { password: "secret word" } }, async (page) => {
    await page.getByRole("textbox", { name: "Password" }).waitFor();
    await isAccessible(page, "the password dialog");
    await dialogAnswer(page, "wrong", "Continue");
    await page.getByText("That password was not accepted").waitFor();
    await dialogAnswer(page, "secret word", "Continue");
    await page.locator("dialog").waitFor({ state: "detached" });
    await ask(page, "hello");
    await page.reload();
    await page.locator(".turn.assistant").waitFor();
    await ask(page, "again");
    assert.doesNotMatch(JSON.stringify(await page.evaluate(() => ({ ...localStorage }))), /secret/);
  })],
  ["two tabs do not overwrite each other's settings", () => onFake({}, async (page, server) => {
    const other = await page.context().newPage();
    await other.goto(server.address);
    await other.getByText("What would you like to ask?").waitFor();
    await button(page, "Settings").click();
    await page.getByLabel("Temperature").fill("0.11");
    await button(other, "Settings").click();
    await other.getByLabel("Top k").fill("7");
    await page.waitForFunction(() => document.querySelector("[name=top_k]").value === "7");
    await eventually(async () => assert.equal(await other.getByLabel("Temperature").inputValue(), "0.11"));
    await page.reload();
    await button(page, "Settings").click();
    await page.waitForFunction(() => document.querySelector("[name=top_k]").value === "7" && document.querySelector("[name=temperature]").value === "0.11");
    await other.close();
  })],
  ["two tabs show each other's conversations", () => onFake({}, async (page, server) => {
    const other = await page.context().newPage();
    await other.goto(server.address);
    await other.getByText("What would you like to ask?").waitFor();
    await ask(page, "seen elsewhere");
    await other.locator(".entry", { hasText: "seen elsewhere" }).click();
    await other.getByText("You said: seen elsewhere").waitFor();
    await other.close();
  })],
  ["log-probabilities tint the tokens, as they came or scored afterwards", () => onFake({}, async (page, server) => {
    await ask(page, "hello there");
    await button(page, "Probabilities").click();
    await page.locator(".tokens button.likely").first().click();
    await page.locator(".alternatives").getByText("other").waitFor();
    await button(page, "Settings").click();
    await page.getByLabel("Ask for log-probabilities with each answer").check();
    await page.keyboard.press("Escape");
    await ask(page, "with them");
    assert.equal(server.asked.at(-1).top_logprobs, 5);
    await button(page, "Probabilities").last().click();
    await page.locator(".tokens").last().locator("button.sure").first().click();
    await isAccessible(page, "tokens by probability");
  })],
  ["text files go with a message; others are refused", () => onFake({}, async (page, server) => {
    writeFileSync(join(folder, "notes.txt"), "remember the milk");
    writeFileSync(join(folder, "picture.bin"), Buffer.from([0x89, 0, 1, 2]));
    await upload(page, () => button(page, "Attach text files").click(), [join(folder, "notes.txt"), join(folder, "picture.bin")]);
    await page.getByText("picture.bin is not a text file.").waitFor();
    await page.locator(".attached", { hasText: "notes.txt" }).waitFor();
    await ask(page, "what is in it?");
    assert.match(server.asked[0].messages[0].content, /remember the milk[\s\S]*what is in it\?/);
  })],
  ["examples are for the model that is there", () => onFake({}, async (page) => {
    await page.getByRole("list", { name: "Examples" }).getByText("recurrent neural network").waitFor();
    assert.equal(await page.getByText("Reverse: fulmar").count(), 0);
  })],
  ["on another machine's server the page says where words go, and works by plain HTTP", () => onFake({}, async (page, server) => {
    await page.getByText("The model runs on this machine. Nothing leaves it.").waitFor();
    const address = server.address.replace("127.0.0.1", ELSEWHERE);
    const other = await openPage(browser, address, { viewport: { width: 390, height: 844 } });
    await other.getByText(`The model runs on ${ELSEWHERE}. What you write goes there and nowhere else.`).waitFor();
    await other.getByText("The connection is not encrypted").waitFor();
    assert.equal(await other.getByText("Nothing leaves it").count(), 0);
    assert.equal(await other.evaluate(() => isSecureContext), false, "what browsers keep from such pages is missing here");
    await ask(other, "hello there");
    await button(other, "Copy").last().click();
    await other.getByText("Copied").waitFor();
    await other.reload();
    await other.locator(".turn.user", { hasText: "hello there" }).waitFor();
    assert.deepEqual(other.troubles, []);
    await other.context().close();
  })],
  ["completion continues a text as it stands; undo takes it back", () => onFake({}, async (page, server) => {
    await page.getByRole("tab", { name: "Completion" }).click();
    await page.getByLabel("Text to continue").fill("Once ");
    await page.keyboard.press("Control+Enter");
    await page.waitForFunction(() => document.querySelector(".paper").value === "Once You said: more");
    assert.equal(server.asked[0].prompt, "Once ");
    await isAccessible(page, "completion");
    await button(page, "Undo").click();
    await page.waitForFunction(() => document.querySelector(".paper").value === "Once ");
  })],
  ["a batch fills one table", () => onFake({}, async (page, server) => {
    await page.getByRole("tab", { name: "Batch" }).click();
    await page.getByLabel("Prompts").fill("a\nb");
    await page.getByLabel("Answers to each").fill("2");
    await button(page, "Run").click();
    await page.getByText("4 of 4 done").waitFor();
    assert.deepEqual(server.asked[0].contents, ["a", "a", "b", "b"].map((one) => `User: ${one}\n\nAssistant:`));
    await eventually(async () => assert.deepEqual(await page.locator(".batch-table .answer").allTextContents(), ["answer to a", "answer to a", "answer to b", "answer to b"]));
    const csv = readFileSync(await download(page, folder, () => button(page, "Save as CSV").click()), "utf8");
    assert.match(csv, /"a","answer to a","stop"/);
    await isAccessible(page, "batch");
    await shoot(page, "chat-batch");
  })],
  ["shortcuts reach everything", () => onFake({}, async (page) => {
    await ask(page, "hello");
    await page.locator("body").press("Alt+n");
    await page.getByText("What would you like to ask?").waitFor();
    await page.locator("body").press("Alt+k");
    await page.waitForFunction(() => document.activeElement.id === "search");
    await page.locator("body").press("Alt+m");
    await page.getByRole("heading", { name: "Models and states" }).waitFor();
    await isAccessible(page, "models and states");
    await page.keyboard.press("Escape");
    await page.locator("body").press("Alt+/");
    await page.getByRole("heading", { name: "Keyboard shortcuts" }).waitFor();
    await page.keyboard.press("Escape");
  })],
  ["a browser that keeps nothing is told so, and chats all the same", () => onFake({}, async (page, server) => {
    await page.addInitScript(() => { IDBFactory.prototype.open = () => { throw new DOMException("no", "SecurityError"); }; });
    await page.goto(server.address);
    await page.getByText("This browser keeps no data").waitFor();
    await ask(page, "hello");
    await ask(page, "and again");
    await eventually(async () => assert.equal((await answers(page)).length, 2));
  })],
  ["light and dark, wide, narrow and low", async () => {
    for (const [name, colorScheme, width, height] of [
      ["chat-light", "light", 1280, 860], ["chat-dark", "dark", 1280, 860], ["chat-phone-320", "light", 320, 640], ["chat-phone-390-dark", "dark", 390, 844], ["chat-landscape", "light", 667, 375],
    ]) {
      await onFake({ page: { colorScheme, viewport: { width, height } } }, async (page) => {
        await page.getByText("What would you like to ask?").waitFor();
        await page.locator(".examples").waitFor();
        await fits(page, `${name}, welcome`);
        await isAccessible(page, `${name}, welcome`);
        const [last, box] = await Promise.all([page.locator(".scroll").boundingBox(), page.locator(".box").boundingBox()]);
        assert.ok(last.y + last.height <= box.y + 1, `${name}: the composer covers what is above it`);
        const model = await page.getByLabel("Model", { exact: true }).boundingBox();
        assert.ok(model.width >= 90, `${name}: the model's name has ${model.width} pixels`);
        await ask(page, "markdown");
        await page.locator(".katex").first().waitFor();
        await fits(page, name);
        await isAccessible(page, name);
        await shoot(page, name);
        if (width < 700) {
          await button(page, "Conversations").click();
          await page.locator(".entry").click({ trial: true });
          await isAccessible(page, `${name}, list`);
        }
      });
    }
  }],
];

const failed = await runSteps([...steps, ...programSteps({ browser, program, models, folder })], only, 2);
await browser.close();
rmSync(folder, { recursive: true, force: true });
console.log(failed === 0 ? "passed" : `${failed} steps failed`);
process.exit(failed === 0 ? 0 : 1);
