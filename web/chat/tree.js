// A conversation as a tree of turns: plain functions over a Map of nodes {id, parent, role, text, created, ...}.
// A node without a parent begins the conversation. Pure.

// The nodes from the first turn to `id`.
export function pathTo(nodes, id) {
  const path = [];
  for (let node = nodes.get(id); node && path.length <= nodes.size; node = nodes.get(node.parent)) path.push(node);
  return path.reverse();
}

// The children of a node (null: of the root), oldest first.
export function childrenOf(nodes, parent) {
  return [...nodes.values()].filter((node) => (node.parent ?? null) === (parent ?? null))
    .sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1));
}

// The turns that stand in the place of `node`, itself included.
export const siblingsOf = (nodes, node) => childrenOf(nodes, node.parent);

// The newest leaf below `id`, which may be itself: where a step to another branch leads.
export function newestLeaf(nodes, id) {
  let at = id;
  for (;;) {
    const children = childrenOf(nodes, at);
    if (children.length === 0) return at;
    at = children.at(-1).id;
  }
}

// `id` and everything below it.
export function subtree(nodes, id) {
  const found = [id];
  for (let i = 0; i < found.length; ++i) found.push(...childrenOf(nodes, found[i]).map((node) => node.id));
  return found;
}

// The leaf to show once `id` and what is below it is gone: on a neighbouring branch, else the parent.
export function leafWithout(nodes, id) {
  const node = nodes.get(id);
  const others = siblingsOf(nodes, node).filter((one) => one.id !== id);
  return others.length > 0 ? newestLeaf(nodes, others.at(-1).id) : node.parent ?? null;
}

// What a turn says to the model: its text with the files that came with it.
export function spoken(node) {
  const files = (node.files ?? []).map((file) => `File ${file.name}:\n\`\`\`\n${file.text.trimEnd()}\n\`\`\``);
  return [...files, node.text].join("\n");
}

// The messages of a path as the API takes them.
export function messagesOf(path, system) {
  const turns = path.filter((node) => node.text || node.files?.length).map((node) => ({ role: node.role, content: spoken(node) }));
  return system ? [{ role: "system", content: system }, ...turns] : turns;
}

// The title of a conversation that begins with `text`.
export function titleOf(text) {
  const line = text.trim().split("\n")[0].trim();
  return line.length > 60 ? `${line.slice(0, 57).trimEnd()}...` : line || "New chat";
}
