// Asking the server for answers. Each answer has a session of its own on the server, forked from the one of the answer
// before it: the server goes on from there and is sent only the new turn, at any turn, on any branch.
import { generate, LiveAnswer } from "../shared/generate.js";
import { keepCut } from "./store.js";
import { basisOf, chatFields, samplingFields } from "./settings.js";
import { promptTo } from "./template.js";
import { messagesOf, pathTo, spoken } from "./tree.js";
import {
  addNode, begun, changeConversation, changeNode, createConversation, current, live, model, nodes, server, sessionName, settings,
} from "./state.js";

const SAVE_MS = 1000;
const STOP_PATIENCE_MS = 3000;

// A message of the user and the answer to it.
export async function send(text, files = []) {
  await begun;
  const conversation = current.value ?? await createConversation(text || files[0].name);
  const turn = await addNode({ conversation: conversation.id, parent: conversation.leaf, role: "user", text, files });
  await answer(turn.id);
}

// The user's turn in other words: a branch beside it.
export async function resend(node, text) {
  const turn = await addNode({ conversation: node.conversation, parent: node.parent, role: "user", text, files: node.files });
  await answer(turn.id);
}

// Another answer in the place of one.
export const regenerate = (node) => answer(node.parent);

// An answer with other words, written by the user. The server has no state for it: the next turn sends the history.
export async function rewrite(node, text) {
  const turn = await addNode({ conversation: node.conversation, parent: node.parent, role: "assistant", text, note: "Edited" });
  await changeConversation(node.conversation, { leaf: turn.id });
}

// Answers the user's turn `parent`.
export async function answer(parent) {
  const turn = nodes.value.get(parent);
  const node = await addNode({ conversation: turn.conversation, parent, role: "assistant", status: "streaming", model: model.value });
  await changeConversation(turn.conversation, { leaf: node.id, updated: Date.now(), model: model.value });
  await run(node, (session) => prepare(turn, session));
}

// Goes on with an answer that was cut off or reached its length: the text so far is the end of the prompt. The server keeps
// no state of that: the next turn sends the history.
export async function continueAnswer(node) {
  await changeNode(node.id, { status: "streaming", note: "" });
  await run(node, async () => {
    const { before, stop, padZero } = await promptTo(model.value, pathTo(nodes.value, node.id), settings.value.system);
    return { path: "v1/completions", session: null, body: { stop, ...samplingFields(settings.value), prompt: before + node.text, pad_zero: padZero } };
  }, node.text);
}

const named = (session) => (session ? { session_id: session } : {});

// The messages and the session of a request: only the new turn where the server has the state before it.
async function prepare(turn, session) {
  const path = pathTo(nodes.value, turn.id);
  const request = (messages, used) => ({
    path: "v1/chat/completions", session: used, body: { ...chatFields(settings.value), messages, ...named(used) },
  });
  const whole = messagesOf(path, settings.value.system);
  if (!settings.value.sessions) return request(whole, null);
  const before = path.at(-2);
  const usable = before?.session && before.basis === basisOf(model.value, settings.value) && before.status !== "cut";
  const tokens = usable ? await fork(before.session, session) : 0;
  return tokens > 0 ? { ...request([{ role: "user", content: spoken(turn) }], session), forked: tokens } : request(whole, session);
}

// The tokens of the state that the server copied; 0 where it could not: it may have been restarted or have another model.
async function fork(from, to) {
  try {
    return (await server.post(`v1/sessions/${encodeURIComponent(from)}/fork`, { session_id: to })).tokens;
  } catch (problem) {
    if (problem.status === 0 || problem.status === 401) throw problem;
    return 0;
  }
}

// Streams one answer into `node`. `begin(session)` resolves to {path, body, session, forked}; `before`: text that stands
// already.
async function run(node, begin, before = "") {
  const growing = new LiveAnswer();
  growing.text = before;
  const abort = new AbortController();
  let request = null;
  let stopped = false;
  const stop = () => {
    if (stopped) return abort.abort();
    stopped = true;
    if (!request) return abort.abort();
    // Told to stop, the server ends the stream and keeps the state of what it has sent.
    server.post("v1/server/stop", { request_id: request }).catch(() => abort.abort());
    setTimeout(() => abort.abort(), STOP_PATIENCE_MS);
    return undefined;
  };
  live.value = new Map(live.value).set(node.id, { node, answer: growing, stop });
  const written = () => ({ text: growing.text, thinking: growing.thinking || node.thinking || "", saved: Date.now() });
  const timer = setInterval(() => changeNode(node.id, written(), true), SAVE_MS);
  // A page that closes has no time for the store.
  const leave = () => keepCut(node.id, written());
  addEventListener("pagehide", leave);
  let end;
  try {
    const { path, body, session, forked = 0 } = await begin(sessionName(node.conversation, node.id));
    growing.forked = forked;
    await generate(server, path, { model: model.value, ...body }, growing, {
      signal: abort.signal, onStart: (id) => { request = id; },
    });
    end = { ...ending(growing, stopped), session, basis: basisOf(model.value, settings.value) };
  } catch (problem) {
    end = failure(problem, growing.text !== before || growing.thinking !== "", stopped);
  }
  clearInterval(timer);
  removeEventListener("pagehide", leave);
  await changeNode(node.id, { ...written(), ...end, figures: growing.first === null ? null : growing.figures(), tops: growing.tops });
  const rest = new Map(live.value);
  rest.delete(node.id);
  live.value = rest;
}

const cuts = ["abort", "cancelled", "paused", "server_stopping"];

function ending(growing, stopped) {
  if (stopped) return { status: "stopped", note: "Stopped" };
  if (growing.finish === "length") return { status: "length", note: "The most tokens were reached." };
  if (cuts.includes(growing.finish)) return { status: "cut", note: "The server cut the answer.", session: null };
  if (growing.finish === null) return { status: "cut", note: "The answer ended without a reason." };
  return { status: "done", note: "" };
}

function failure(problem, begun, stopped) {
  if (stopped || problem.name === "AbortError") return { status: "stopped", note: "Stopped", session: null };
  if (begun) return { status: "cut", note: problem.message, session: null };
  return { status: "failed", note: problem.message, session: null };
}
