// Conversations as files: JSON that can be taken back in, and Markdown to read. Pure but for the store.
import { fileTitle, saveFile } from "../shared/clipboard.js";
import * as store from "./store.js";
import { pathTo, spoken } from "./tree.js";

const FORMAT = "fulmar-conversations";

export function markdownOf(conversation, nodes) {
  const turns = pathTo(nodes, conversation.leaf).map((node) => {
    const thinking = node.thinking ? `<details><summary>Thinking</summary>\n\n${node.thinking.trim()}\n\n</details>\n\n` : "";
    return `## ${node.role === "user" ? "You" : node.model || "Assistant"}\n\n${thinking}${spoken(node).trim()}\n`;
  });
  return `# ${conversation.title}\n\n${turns.join("\n")}`;
}

export async function exportMarkdown(conversation) {
  const nodes = new Map((await store.nodesOf(conversation.id)).map((node) => [node.id, node]));
  saveFile(`${fileTitle(conversation.title)}.md`, markdownOf(conversation, nodes), "text/markdown");
}

export async function exportJson(conversations, name) {
  const whole = await Promise.all(conversations.map(async (one) => ({ ...one, nodes: await store.nodesOf(one.id) })));
  saveFile(`${fileTitle(name)}.json`, JSON.stringify({ format: FORMAT, version: 1, conversations: whole }, null, 1), "application/json");
}

// The conversations of a file under fresh ids: [{conversation, nodes}]. Throws an Error in words.
export function readFile(text, freshId) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("The file is not JSON.");
  }
  if (file?.format !== FORMAT || !Array.isArray(file.conversations)) throw new Error(`The file's format is '${file?.format}', wanted '${FORMAT}'.`);
  return file.conversations.map(({ nodes = [], ...conversation }) => {
    const ids = new Map(nodes.map((node) => [node.id, freshId()]));
    const id = freshId();
    return {
      conversation: { ...conversation, id, title: String(conversation.title ?? "Imported"), leaf: ids.get(conversation.leaf) ?? null },
      // The states stay with the server that made them: an imported turn is sent again.
      nodes: nodes.map((node) => ({
        ...node, id: ids.get(node.id), conversation: id, parent: ids.get(node.parent) ?? null, text: String(node.text ?? ""),
        session: null, status: node.status === "streaming" ? "cut" : node.status,
      })),
    };
  });
}

export async function importJson(text) {
  const found = readFile(text, store.freshId);
  for (const { conversation, nodes } of found) {
    for (const node of nodes) await store.putNode(node, true);
    await store.putConversation(conversation);
  }
  return found.map((one) => one.conversation);
}
