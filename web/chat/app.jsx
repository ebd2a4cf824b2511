// The frame of the chat page: bar, list of conversations, and one of its three tools.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Mark } from "../shared/icons.jsx";
import { Dialog, IconButton, Notes, Questions, Tabs } from "../shared/ui.jsx";
import { Batch } from "./batch.jsx";
import { Completion } from "./completion.jsx";
import { stopAnswers } from "./composer.jsx";
import { Conversation } from "./conversation.jsx";
import { ModelsPanel, modelsShown } from "./models_panel.jsx";
import { SettingsPanel, settingsShown } from "./settings_panel.jsx";
import { drawer, Sidebar } from "./sidebar.jsx";
import { busy, chooseModel, current, model, models, newChat, path, serverProblem, show, stepTo, nodes, view } from "./state.js";
import { siblingsOf } from "./tree.js";

const TOOLS = [["chat", "Chat"], ["completion", "Completion"], ["batch", "Batch"]];
const shortcutsShown = signal(false);

// Steps to the neighbouring branch of the last turn that has one.
function stepBranch(move) {
  const turn = path.value.findLast((node) => siblingsOf(nodes.value, node).length > 1);
  if (!turn) return;
  const all = siblingsOf(nodes.value, turn);
  const next = all[all.findIndex((one) => one.id === turn.id) + move];
  if (next) stepTo(next.id);
}

const SHORTCUTS = [
  { keys: "Enter", text: "Send" },
  { keys: "Shift+Enter", text: "A new line" },
  { keys: "Esc", text: "Stop the answer" },
  { keys: "Alt+N", text: "New chat", run: newChat },
  { keys: "Alt+K", text: "Search conversations", run: () => { drawer.value = true; requestAnimationFrame(() => document.getElementById("search").focus()); } },
  { keys: "Alt+S", text: "Settings", run: () => { settingsShown.value = true; } },
  { keys: "Alt+M", text: "Models and states", run: () => { modelsShown.value = true; } },
  { keys: "Alt+ArrowLeft", text: "Branch before", run: () => stepBranch(-1) },
  { keys: "Alt+ArrowRight", text: "Branch after", run: () => stepBranch(1) },
  { keys: "Alt+/", text: "These shortcuts", run: () => { shortcutsShown.value = true; } },
];

function onKey(event) {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && busy.value) return stopAnswers();
  if (!event.altKey || event.ctrlKey || event.metaKey) return undefined;
  const name = event.code.startsWith("Key") ? event.code.slice(3) : event.key;
  const shortcut = SHORTCUTS.find((one) => one.run && one.keys === `Alt+${name}`);
  // In a text, the arrows move by words where Alt does that; elsewhere they step between branches.
  const writing = event.target.matches?.("textarea, input") && event.target.value !== "" && name.startsWith("Arrow");
  if (!shortcut || writing) return undefined;
  event.preventDefault();
  return shortcut.run();
}

function Shortcuts() {
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => { shortcutsShown.value = false; }}>
      <dl class="shortcuts">{SHORTCUTS.map(({ keys, text }) => <div key={keys}><dt><kbd>{keys}</kbd></dt><dd>{text}</dd></div>)}</dl>
    </Dialog>
  );
}

function Bar() {
  return (
    <header class="bar">
      <IconButton icon="menu" label="Conversations" class="icon-button only-drawer" aria-expanded={drawer.value} onClick={() => { drawer.value = !drawer.value; }} />
      <h1 class="name"><Mark /><span>Fulmar</span></h1>
      <select class="model" aria-label="Model" title={model.value} value={model.value} disabled={models.value.length === 0} onChange={(event) => chooseModel(event.currentTarget.value)}>
        {models.value.length === 0 && <option value="">{serverProblem.value ? "no model" : "…"}</option>}
        {models.value.map((one) => <option key={one.id} value={one.id}>{one.id}</option>)}
      </select>
      <Tabs label="Tools" tabs={TOOLS} chosen={view.value} onChoose={show} panel="tool" />
      <span class="space" />
      <IconButton icon="cube" label="Models and states" aria-haspopup="dialog" onClick={() => { modelsShown.value = true; }} />
      <IconButton icon="sliders" label="Settings" aria-haspopup="dialog" onClick={() => { settingsShown.value = true; }} />
    </header>
  );
}

export function App() {
  const title = current.value?.title;
  useEffect(() => { document.title = title ? `${title} · Fulmar` : "Fulmar"; }, [title]);
  useEffect(() => {
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      <a class="skip" href="#tool" onClick={(event) => { event.preventDefault(); document.getElementById("tool").focus(); }}>Skip to the conversation</a>
      <Sidebar />
      {drawer.value && <div class="veil" onClick={() => { drawer.value = false; }} />}
      <div class="page">
        <Bar />
        <main>
          <div id="tool" role="tabpanel" aria-labelledby={`tab-${view.value}`} tabindex="-1" class={view.value}>
            {view.value === "completion" ? <Completion /> : view.value === "batch" ? <Batch /> : <Conversation />}
          </div>
        </main>
      </div>
      {settingsShown.value && <SettingsPanel />}
      {modelsShown.value && <ModelsPanel />}
      {shortcutsShown.value && <Shortcuts />}
      <Questions />
      <Notes />
    </>
  );
}
