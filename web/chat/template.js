// How the model writes chats, in the server's words (docs/api.md, apply-template): for going on within an answer, scoring one,
// and batches, which the chat route cannot do.
import { server } from "./state.js";
import { messagesOf } from "./tree.js";

const PLACE = "\uE000";  // stands for a text that is to stay as it is

const applied = (model, messages, more = {}) => server.post("apply-template", { model, messages, ...more });

// Of a path that ends in an answer: the text before that answer, the texts that end it, and whether token 0 comes first.
export async function promptTo(model, path, system) {
  const messages = [...messagesOf(path.slice(0, -1), system), { role: "assistant", content: PLACE }];
  const { prompt, stop, pad_zero: padZero } = await applied(model, messages, { add_generation_prompt: false });
  return { before: prompt.slice(0, prompt.lastIndexOf(PLACE)), stop, padZero };
}

// One question, with {} in its place, and the beginning of its answer.
export async function questionPattern(model) {
  const { prompt, pad_zero: padZero } = await applied(model, [{ role: "user", content: PLACE }]);
  return { pattern: prompt.replace(PLACE, "{}"), padZero };
}
