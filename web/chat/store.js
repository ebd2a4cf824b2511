// Conversations, turns, presets and settings in IndexedDB, and word of changes to other tabs. Where the browser keeps
// nothing (some private windows), `kept` is false and everything lasts as long as the page.
import { openDB } from "idb";

const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("fulmar.changes") : null;
let db = null;

// Names that sort by time and meet nowhere. crypto.randomUUID is kept from pages that came by plain HTTP.
export function freshId() {
  const random = crypto.getRandomValues(new Uint32Array(2));
  return Date.now().toString(36).padStart(9, "0") + [...random].map((word) => word.toString(36).padStart(7, "0")).join("");
}

export async function openStore() {
  try {
    db = await openDB("fulmar", 1, {
      upgrade(fresh) {
        fresh.createObjectStore("conversations", { keyPath: "id" });
        fresh.createObjectStore("nodes", { keyPath: "id" }).createIndex("conversation", "conversation");
        fresh.createObjectStore("presets", { keyPath: "name" });
        fresh.createObjectStore("settings");
      },
      blocking: () => db?.close(),
    });
    return true;
  } catch {
    return false;
  }
}

// Calls `hear({kind, id, conversation})` when another tab has changed something.
export function listen(hear) {
  channel?.addEventListener("message", (event) => hear(event.data));
}
const tell = (change) => channel?.postMessage(change);

export const allConversations = async () => (db ? db.getAll("conversations") : []);
export const nodesOf = async (conversation) => (db ? db.getAllFromIndex("nodes", "conversation", conversation) : []);
export const oneConversation = async (id) => db?.get("conversations", id);

export async function putConversation(conversation) {
  await db?.put("conversations", conversation);
  tell({ kind: "conversation", id: conversation.id });
}

export async function putNode(node, quiet = false) {
  await db?.put("nodes", node);
  if (!quiet) tell({ kind: "node", id: node.id, conversation: node.conversation });
}

export async function deleteNodes(conversation, ids) {
  if (!db) return;
  const change = db.transaction("nodes", "readwrite");
  await Promise.all([...ids.map((id) => change.store.delete(id)), change.done]);
  tell({ kind: "node", conversation });
}

export async function deleteConversation(id) {
  if (!db) return;
  const change = db.transaction(["conversations", "nodes"], "readwrite");
  const keys = await change.objectStore("nodes").index("conversation").getAllKeys(id);
  await Promise.all([...keys.map((key) => change.objectStore("nodes").delete(key)), change.objectStore("conversations").delete(id), change.done]);
  tell({ kind: "conversation", id });
}

// The ids of conversations with `words` in a turn.
export async function searchTexts(words) {
  const found = new Set();
  const sought = words.toLowerCase();
  for (let cursor = await db?.transaction("nodes").store.openCursor(); cursor; cursor = await cursor.continue()) {
    if (cursor.value.text.toLowerCase().includes(sought)) found.add(cursor.value.conversation);
  }
  return found;
}

// ---- settings: one record per name, so that two tabs that change different ones do not undo each other's work

export async function readSettings() {
  if (!db) return {};
  const [names, values] = await Promise.all([db.getAllKeys("settings"), db.getAll("settings")]);
  return Object.fromEntries(names.map((name, i) => [name, values[i]]));
}

export async function writeSettings(changes) {
  if (!db) return;
  const change = db.transaction("settings", "readwrite");
  await Promise.all([...Object.entries(changes).map(([name, value]) => change.store.put(value, name)), change.done]);
  tell({ kind: "settings" });
}

export const readPresets = async () => (db ? db.getAll("presets") : []);
export async function putPreset(preset) {
  await db?.put("presets", preset);
  tell({ kind: "presets" });
}
export async function deletePreset(name) {
  await db?.delete("presets", name);
  tell({ kind: "presets" });
}

// ---- this tab: a reload keeps its name, so that it knows its own cut answers

const TAB = "fulmar.tab";
let tab = null;

export function tabId() {
  if (tab) return tab;
  tab = freshId();
  try {
    tab = sessionStorage.getItem(TAB) ?? tab;
    sessionStorage.setItem(TAB, tab);
  } catch { /* a name for this page alone */ }
  return tab;
}

// What an answer had when its page closed, for the page that comes after it in this tab: IndexedDB would be too slow.
const CUT = "fulmar.cut.";

export function keepCut(id, values) {
  try {
    sessionStorage.setItem(CUT + id, JSON.stringify(values));
  } catch { /* the last stored text stays */ }
}

export function takeCut(id) {
  try {
    const kept = JSON.parse(sessionStorage.getItem(CUT + id) ?? "{}");
    sessionStorage.removeItem(CUT + id);
    return kept;
  } catch {
    return {};
  }
}
