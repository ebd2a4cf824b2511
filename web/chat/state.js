// What the chat page shows, as signals, and the actions that change it. Talks to the store; knows no HTML.
import { batch, computed, signal } from "@preact/signals";
import { Server } from "../shared/http.js";
import { asked, notify } from "../shared/ui.jsx";
import * as store from "./store.js";
import { DEFAULTS, PRESETS } from "./settings.js";
import { leafWithout, newestLeaf, pathTo, subtree, titleOf } from "./tree.js";

const KEY_NAME = "fulmar.key";  // of sessionStorage: gone with the tab, never on the disk in clear

export const conversations = signal([]);
export const current = signal(null);        // the conversation on the page; null: a new one
export const nodes = signal(new Map());     // its turns by id
export const settings = signal({ ...DEFAULTS });
export const ownPresets = signal([]);
export const models = signal([]);           // as /v1/models lists them
export const available = signal([]);        // ids that the server could load in the place of those
export const model = signal("");            // id; empty: the server's default
export const serverProblem = signal("");
export const kept = signal(true);           // whether this browser keeps conversations
export const view = signal(location.hash.slice(1) || "chat");  // chat, completion, batch
export const live = signal(new Map());      // node id -> {node, answer, stop()} of answers under way here

export const path = computed(() => (current.value ? pathTo(nodes.value, current.value.leaf) : []));
export const busy = computed(() => path.value.some((node) => live.value.has(node.id)));
export const presets = computed(() => ({ ...PRESETS, ...Object.fromEntries(ownPresets.value.map((one) => [one.name, one.values])) }));

// ---- the server

let asking = null;
async function askKey(wrong) {
  asking ??= asked(wrong ? "That password was not accepted" : "This server has a password", "Password", "", "Continue", { secret: true });
  const key = await asking;
  asking = null;
  if (key) {
    try {
      sessionStorage.setItem(KEY_NAME, key);
    } catch { /* kept by the page alone */ }
  }
  return key;
}

export const server = new Server(undefined, askKey);

export async function loadModels() {
  try {
    const { data: list, available: others = [] } = await server.get("v1/models");
    batch(() => {
      models.value = list;
      available.value = others.filter((id) => !list.some((one) => one.id === id));
      serverProblem.value = list.length === 0 ? "No model is loaded." : "";
      if (!list.some((one) => one.id === model.value)) model.value = list[0]?.id ?? "";
    });
  } catch (problem) {
    serverProblem.value = problem.message;
  }
}

// A route that needs the key and costs nothing: a server with a password asks at once, not after the first message.
const checkKey = () => server.get("v1/state/list").catch(() => {});

// ---- start, and word from other tabs

let storeIsRead;
export const begun = new Promise((resolve) => { storeIsRead = resolve; });  // what is stored has been read

export async function begin() {
  try {
    server.key = sessionStorage.getItem(KEY_NAME);
  } catch { /* none is kept */ }
  kept.value = await store.openStore();
  await readShared();
  conversations.value = (await store.allConversations()).sort(byTime);
  await openAddressed();
  storeIsRead();
  store.listen(hear);
  addEventListener("hashchange", () => { view.value = location.hash.slice(1) || "chat"; });
  await loadModels();
  await checkKey();
}

const byTime = (a, b) => b.updated - a.updated;

async function readShared() {
  const stored = await store.readSettings();
  settings.value = { ...DEFAULTS, ...stored };
  if (stored.model !== undefined) model.value = stored.model;
  ownPresets.value = await store.readPresets();
}

async function hear(change) {
  if (change.kind === "settings" || change.kind === "presets") return readShared();
  if (change.kind === "conversation") {
    const one = await store.oneConversation(change.id);
    conversations.value = [...conversations.value.filter((other) => other.id !== change.id), ...(one ? [one] : [])].sort(byTime);
    if (current.value?.id !== change.id) return undefined;
    if (!one) return newChat();
    // Each tab stays on its own branch.
    current.value = { ...one, leaf: current.value.leaf };
  }
  if (change.kind === "node" && change.conversation === current.value?.id) await readNodes(change.conversation);
  return undefined;
}

async function readNodes(conversation) {
  const list = await store.nodesOf(conversation);
  // Answers under way here are newer than what is stored.
  const own = runningOf(conversation);
  nodes.value = new Map([...list, ...own].map((node) => [node.id, node]));
}

const runningOf = (conversation) => [...live.value.values()].map((entry) => entry.node).filter((node) => node.conversation === conversation);

// ---- conversations

const OPEN = "fulmar.open";  // of sessionStorage: the conversation that this tab shows

async function openAddressed() {
  let id = null;
  try {
    id = sessionStorage.getItem(OPEN);
  } catch { /* none is kept */ }
  if (id && conversations.value.some((one) => one.id === id)) await openConversation(id);
}

function remember(id) {
  try {
    if (id) sessionStorage.setItem(OPEN, id);
    else sessionStorage.removeItem(OPEN);
  } catch { /* it is forgotten */ }
}

export async function openConversation(id) {
  const one = conversations.value.find((other) => other.id === id);
  if (!one) return;
  const list = await store.nodesOf(id);
  const running = runningOf(id);
  batch(() => {
    nodes.value = new Map([...list, ...running].map((node) => [node.id, node]));
    current.value = one;
    if (one.model && models.value.some((other) => other.id === one.model)) model.value = one.model;
    show("chat");
  });
  remember(id);
  await markCut(list);
}

// An answer that says it is streaming, but not in this page: a tab that streams writes every second.
async function markCut(list) {
  for (const node of list) {
    const stale = Date.now() - (node.saved ?? 0) > 4000 || node.tab === store.tabId();
    if (node.status === "streaming" && !live.value.has(node.id) && stale) {
      await changeNode(node.id, { ...store.takeCut(node.id), status: "cut", note: "This answer was cut off when the page closed." });
    }
  }
}

export function newChat() {
  batch(() => {
    current.value = null;
    nodes.value = new Map();
    show("chat");
  });
  remember(null);
}

export function show(name) {
  view.value = name;
  if ((location.hash.slice(1) || "chat") !== name) history.replaceState(null, "", name === "chat" ? location.pathname : `#${name}`);
}

export async function createConversation(text, more = {}) {
  const now = Date.now();
  const one = { id: store.freshId(), title: titleOf(text), created: now, updated: now, pinned: false, folder: "", model: model.value, leaf: null, ...more };
  batch(() => {
    current.value = one;
    nodes.value = new Map();
    conversations.value = [one, ...conversations.value];
  });
  remember(one.id);
  await store.putConversation(one);
  return one;
}

export async function changeConversation(id, changes) {
  const one = conversations.value.find((other) => other.id === id);
  if (!one) return;
  const changed = { ...one, ...changes };
  batch(() => {
    conversations.value = conversations.value.map((other) => (other.id === id ? changed : other)).sort(byTime);
    if (current.value?.id === id) current.value = changed;
  });
  await store.putConversation(changed);
}

// The server's states of a conversation; a server that is away keeps them, which costs only its disk.
const dropSessions = (prefix) => server.post("state/delete", { session_id: prefix, delete_prefix: true }).catch(() => {});

export async function removeConversation(id) {
  for (const node of runningOf(id)) live.value.get(node.id).stop();
  if (current.value?.id === id) newChat();
  conversations.value = conversations.value.filter((one) => one.id !== id);
  await store.deleteConversation(id);
  dropSessions(sessionName(id));
}

export const sessionName = (conversation, node) => (node ? `page:${conversation}:${node}` : `page:${conversation}`);

// ---- turns

export async function addNode(values) {
  const node = { id: store.freshId(), parent: null, text: "", created: Date.now(), status: "done", tab: store.tabId(), ...values };
  if (current.value?.id === node.conversation) nodes.value = new Map(nodes.value).set(node.id, node);
  await store.putNode(node);
  return node;
}

export async function changeNode(id, changes, quiet = false) {
  // An answer goes on when its conversation is not the one on the page.
  const running = live.value.get(id);
  const node = nodes.value.get(id) ?? running?.node;
  if (!node) return;
  const changed = { ...node, ...changes };
  if (running) running.node = changed;
  if (nodes.value.has(id)) nodes.value = new Map(nodes.value).set(id, changed);
  await store.putNode(changed, quiet);
}

export const moveTo = (leaf) => changeConversation(current.value.id, { leaf });
export const stepTo = (id) => moveTo(newestLeaf(nodes.value, id));

export async function removeTurn(id) {
  const gone = subtree(nodes.value, id);
  for (const one of gone) live.value.get(one)?.stop();
  const leaf = leafWithout(nodes.value, id);
  const rest = new Map(nodes.value);
  for (const one of gone) rest.delete(one);
  const conversation = current.value.id;
  batch(() => {
    nodes.value = rest;
    current.value = { ...current.value, leaf };
  });
  await store.deleteNodes(conversation, gone);
  await changeConversation(conversation, { leaf });
  for (const one of gone) dropSessions(sessionName(conversation, one));
}

// A conversation of its own from the turns up to `id`. The server's states are shared: a turn forks them.
export async function branchOff(id) {
  const turns = pathTo(nodes.value, id);
  const from = current.value;
  const one = await createConversation(from.title, { title: `${from.title} (branch)`, folder: from.folder, model: from.model });
  let parent = null;
  for (const turn of turns) {
    const copy = await addNode({ ...turn, id: store.freshId(), conversation: one.id, parent });
    parent = copy.id;
  }
  await changeConversation(one.id, { leaf: parent });
  notify("A new conversation goes on from here.");
}

// ---- settings

export async function changeSettings(changes) {
  settings.value = { ...settings.value, ...changes };
  await store.writeSettings(changes);
}

export async function chooseModel(id) {
  model.value = id;
  if (current.value) await changeConversation(current.value.id, { model: id });
  await store.writeSettings({ model: id });
}

export async function savePreset(name, values) {
  ownPresets.value = [...ownPresets.value.filter((one) => one.name !== name), { name, values }];
  await store.putPreset({ name, values });
}

export async function dropPreset(name) {
  ownPresets.value = ownPresets.value.filter((one) => one.name !== name);
  await store.deletePreset(name);
}
