// What a user does on the chat page, for steps that drive it.
import { join } from "node:path";

// An answer that is over.
export const SETTLED = ".turn.assistant:not([data-status=streaming])";

export async function ask(page, text) {
  const before = await page.locator(SETTLED).count();
  await page.fill("#prompt", text);
  await page.keyboard.press("Enter");
  await page.locator(SETTLED).nth(before).waitFor();
}

export async function newChat(page) {
  await button(page, "New chat").click();
  await page.getByText("What would you like to ask?").waitFor();
}

export const answers = async (page) => (await page.locator(".turn.assistant .words").allTextContents()).map((text) => text.trim());
// Waits until the answer at `index` reads so: words are drawn by animation frames, a busy machine draws them late.
export const says = (page, index, pattern) =>
  page.locator(".turn.assistant .words").nth(index).filter({ hasText: pattern }).waitFor();
export const button = (page, name) => page.getByRole("button", { name, exact: true });
export const menu = async (page, of, item) => {
  await page.getByRole("button", { name: of }).last().click();
  await page.getByRole("menuitem", { name: item }).click();
};
export const dialogAnswer = async (page, text, action) => {
  if (text !== null) await page.locator("dialog input").fill(text);
  await page.locator("dialog").getByRole("button", { name: action, exact: true }).click();
};

export async function download(page, folder, act) {
  const [file] = await Promise.all([page.waitForEvent("download"), act()]);
  const path = join(folder, file.suggestedFilename());
  await file.saveAs(path);
  return path;
}

export async function upload(page, act, path) {
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), act()]);
  await chooser.setFiles(path);
}
