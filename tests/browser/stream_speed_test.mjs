// What a long answer costs the page, measured in Chromium: 20,000 tokens at 500 a second in Markdown, and 8,000 in one
// paragraph and in one block of code:
//   node stream_speed_test.mjs [TOKENS]
// The page's thread may take 25 % of a core; no task may take 100 ms of it. Both are counted in processor time, so that a
// busy machine does not fail the test.
import assert from "node:assert/strict";
import { startFakeServer } from "./fake_server.mjs";
import { openBrowser, openPage } from "./rig.mjs";

const MOST_SHARE = 0.25;
const MOST_TASK_MS = 100;
const RATE = 500;
const tokens = Number(process.argv[2] ?? 20_000);

const metric = (metrics, name) => metrics.metrics.find((one) => one.name === name).value;

// Seconds of the page's thread, and the longest task of it in milliseconds, while `message` is answered.
async function measure(browser, address, message) {
  const page = await openPage(browser, address, { patience: 200_000 });
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  const tasks = [];
  cdp.on("Tracing.dataCollected", ({ value }) => tasks.push(...value.filter((event) => event.name === "RunTask" || event.name === "ThreadControllerImpl::RunTask")));
  await page.locator("#prompt").waitFor();
  await cdp.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel"] } });
  const before = await cdp.send("Performance.getMetrics");
  const begun = performance.now();
  await page.fill("#prompt", message);
  await page.keyboard.press("Enter");
  await page.locator(".turn.assistant[data-status=done]").waitFor();
  const seconds = (performance.now() - begun) / 1000;
  const after = await cdp.send("Performance.getMetrics");
  const done = new Promise((resolve) => { cdp.on("Tracing.tracingComplete", resolve); });
  await cdp.send("Tracing.end");
  await done;
  const used = metric(after, "TaskDuration") - metric(before, "TaskDuration");
  if (process.env.PARTS) console.log(["ScriptDuration", "LayoutDuration", "RecalcStyleDuration", "TaskDuration"].map((name) => `${name} ${(metric(after, name) - metric(before, name)).toFixed(2)}`).join(", "));
  const length = await page.locator(".turn.assistant .words").evaluate((place) => place.textContent.length);
  assert.deepEqual(page.troubles, []);
  await page.context().close();
  const longest = tasks.reduce((most, task) => Math.max(most, task.tdur ?? 0), 0) / 1000;
  return { seconds, used, longest, length, share: used / seconds };
}

const server = await startFakeServer();
const browser = await openBrowser();
let failed = false;
try {
  for (const [kind, number] of [["stream", tokens], ["paragraph", tokens * 0.4], ["code", tokens * 0.4]]) {
    const { seconds, used, longest, length, share } = await measure(browser, server.address, `${kind} ${number} at ${RATE}`);
    console.log(`${kind}: ${number} tokens, ${length} characters in ${seconds.toFixed(1)} s; page ${used.toFixed(2)} s = ${(100 * share).toFixed(1)} % of a core, longest task ${longest.toFixed(0)} ms`);
    assert.ok(share < MOST_SHARE, `${kind}: the page took ${(100 * share).toFixed(1)} % of a core, wanted less than ${100 * MOST_SHARE} %`);
    assert.ok(longest < MOST_TASK_MS, `${kind}: a task took ${longest.toFixed(0)} ms, wanted less than ${MOST_TASK_MS}`);
  }
  console.log("passed");
} catch (problem) {
  failed = true;
  console.error(problem);
} finally {
  await browser.close();
  await server.close();
}
process.exit(failed ? 1 : 0);
