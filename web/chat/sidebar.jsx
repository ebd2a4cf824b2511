// The list of conversations: search, folders, pins, and what can be done with each.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { pickFiles } from "../shared/clipboard.js";
import { Icon } from "../shared/icons.jsx";
import { asked, attempt, confirmed, IconButton, Menu, notify } from "../shared/ui.jsx";
import { exportJson, exportMarkdown, importJson } from "./files.js";
import { groupsOf } from "./groups.js";
import { changeConversation, conversations, current, kept, newChat, openConversation, removeConversation } from "./state.js";
import { searchTexts } from "./store.js";

export const drawer = signal(false);  // whether the list is shown where it does not fit beside the conversation

async function rename(one) {
  const title = await asked("Rename the conversation", "Title", one.title);
  if (title?.trim()) await changeConversation(one.id, { title: title.trim() });
}

async function file(one) {
  const folders = [...new Set(conversations.value.map((other) => other.folder).filter(Boolean))];
  const folder = await asked("Move to a folder", "Folder, or nothing for none", one.folder, "Move", { options: folders });
  if (folder !== null) await changeConversation(one.id, { folder: folder.trim() });
}

async function remove(one) {
  if (await confirmed("Delete this conversation?", `“${one.title}” and its states on the server will be gone.`, "Delete")) await removeConversation(one.id);
}

async function importFiles() {
  for (const one of await pickFiles({ accept: ".json,application/json" })) {
    const found = await importJson(await one.text());
    conversations.value = [...found, ...conversations.value].sort((a, b) => b.updated - a.updated);
    notify(`${found.length} imported from ${one.name}`);
  }
}

function Entry({ one }) {
  const open = one.id === current.value?.id;
  const act = (action) => () => attempt(action);
  return (
    <li class={open ? "open" : ""}>
      <button type="button" class="entry" aria-current={open ? "true" : undefined} title={one.title}
        onClick={() => { drawer.value = false; attempt(() => openConversation(one.id)); }}>
        {one.pinned && <Icon name="pin" />}<span>{one.title}</span>
      </button>
      <Menu label={`Actions for ${one.title}`} items={[
        { label: "Rename", run: act(() => rename(one)) },
        { label: one.pinned ? "Unpin" : "Pin", run: act(() => changeConversation(one.id, { pinned: !one.pinned })) },
        { label: "Move to folder", run: act(() => file(one)) },
        { label: "Export as Markdown", run: act(() => exportMarkdown(one)) },
        { label: "Export as JSON", run: act(() => exportJson([one], one.title)) },
        { label: "Delete", bad: true, run: act(() => remove(one)) },
      ]} />
    </li>
  );
}

function useSearch(words) {
  const [found, setFound] = useState(null);
  useEffect(() => {
    if (!words.trim()) return setFound(null);
    let over = false;
    const timer = setTimeout(async () => {
      const texts = await searchTexts(words.trim());
      if (!over) setFound(texts);
    }, 150);
    return () => { over = true; clearTimeout(timer); };
  }, [words]);
  return found;
}

export function Sidebar() {
  const [words, setWords] = useState("");
  const found = useSearch(words);
  const sought = words.trim().toLowerCase();
  const list = conversations.value.filter((one) => !sought || one.title.toLowerCase().includes(sought) || found?.has(one.id));
  return (
    <nav class={`sidebar${drawer.value ? " shown" : ""}`} aria-label="Conversations">
      <div class="sidebar-head">
        <button type="button" class="new-chat" onClick={() => { drawer.value = false; newChat(); }}><Icon name="plus" /> New chat</button>
        <Menu label="All conversations" items={[
          { label: "Import from JSON", run: () => attempt(importFiles) },
          conversations.value.length > 0 && { label: "Export all as JSON", run: () => attempt(() => exportJson(conversations.value, "fulmar conversations")) },
        ]} />
        <IconButton icon="close" label="Close the list" class="icon-button only-drawer" onClick={() => { drawer.value = false; }} />
      </div>
      <label class="search"><Icon name="search" /><span class="hidden">Search conversations</span>
        <input type="search" id="search" placeholder="Search" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
      </label>
      <div class="list" tabindex="-1">
        {groupsOf(list).map(({ title, members, folder }) => (
          <section key={title} aria-label={title}>
            <h2 class={folder ? "folder" : ""}>{title}</h2>
            <ul>{members.map((one) => <Entry key={one.id} one={one} />)}</ul>
          </section>
        ))}
        {list.length === 0 && <p class="soft empty-list">{sought ? "Nothing found." : "Conversations will be listed here."}</p>}
        {!kept.value && <p class="problem">This browser keeps no data for this page: a reload forgets everything.</p>}
      </div>
    </nav>
  );
}
