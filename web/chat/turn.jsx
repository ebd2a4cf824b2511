// One turn of a conversation: what was said, what it cost, and what can be done with it.
import { useEffect, useRef, useState } from "preact/hooks";
import { copyText } from "../shared/clipboard.js";
import { count, figuresLine, milliseconds } from "../shared/format.js";
import { Icon } from "../shared/icons.jsx";
import { GrowingText, MarkdownView } from "../shared/markdown_view.jsx";
import { attempt, confirmed, IconButton, Menu, notify } from "../shared/ui.jsx";
import { Probabilities } from "./probabilities.jsx";
import { answer, continueAnswer, regenerate, resend, rewrite } from "./send.js";
import { branchOff, live, nodes, removeTurn, stepTo } from "./state.js";
import { siblingsOf, subtree } from "./tree.js";

const CONTINUABLE = ["cut", "length", "stopped"];

export function Turn({ node, last }) {
  const [editing, setEditing] = useState(false);
  const [shown, setShown] = useState("text");  // text, raw, odds
  const running = live.value.get(node.id);
  const user = node.role === "user";
  const toggle = (what) => setShown(shown === what ? "text" : what);
  return (
    <li class={`turn ${node.role}${last ? " last" : ""}${running ? " running" : ""}`} data-status={node.status}>
      <h2 class="hidden">{user ? "You" : "Answer"}</h2>
      {!user && <Thinking node={node} growing={running?.answer} />}
      {(node.files ?? []).map((file) => <p class="file" key={file.name}>{file.name} <small>{count(file.text.length, "character")}</small></p>)}
      {editing
        ? <Editor node={node} onDone={() => setEditing(false)} />
        : <Words node={node} shown={shown} growing={running?.answer} />}
      {!user && <Outcome node={node} growing={running?.answer} />}
      {!editing && !running && (
        <div class="turn-actions">
          <Branches node={node} />
          <IconButton icon="copy" label="Copy" onClick={async () => notify(await copyText(node.text) ? "Copied" : "The browser did not let the text be copied", false)} />
          <IconButton icon="edit" label={user ? "Edit and send again" : "Edit the answer"} onClick={() => setEditing(true)} />
          {!user && <IconButton icon="again" label="Answer again" onClick={() => attempt(() => regenerate(node))} />}
          {user && last && <IconButton icon="again" label="Ask for an answer" onClick={() => attempt(() => answer(node.id))} />}
          {!user && <IconButton icon="chart" label="Probabilities" aria-pressed={shown === "odds"} onClick={() => toggle("odds")} />}
          <Menu label="More for this turn" items={[
            { label: shown === "raw" ? "Formatted text" : "Raw text", run: () => toggle("raw") },
            { label: "Branch into a new conversation", run: () => attempt(() => branchOff(node.id)) },
            { label: "Delete", bad: true, run: () => attempt(() => remove(node)) },
          ]} />
        </div>
      )}
    </li>
  );
}

async function remove(node) {
  const below = subtree(nodes.value, node.id).length - 1;
  const text = below > 0 ? `${count(below, "turn")} after it, on all branches, will go with it.` : "This cannot be undone.";
  if (await confirmed("Delete this turn?", text, "Delete")) await removeTurn(node.id);
}

function Words({ node, shown, growing }) {
  if (shown === "raw") return <pre class="raw" tabindex="0">{node.text}</pre>;
  if (shown === "odds") return <Probabilities node={node} />;
  if (node.role === "user") return <div class="words">{node.text}</div>;
  return <div class="words"><MarkdownView text={node.text} live={growing} /></div>;
}

// Folded, with the time it took; open while nothing else is there to read.
function Thinking({ node, growing }) {
  const [, update] = useState(0);
  useEffect(() => {
    if (!growing) return undefined;
    const timer = setInterval(() => update((n) => n + 1), 500);
    return () => clearInterval(timer);
  }, [growing]);
  if (!(growing?.thinking || node.thinking)) return null;
  const took = growing ? growing.figures().thought : node.figures?.thought;
  const thinking = growing && growing.thoughtUntil === null;
  return (
    <details class="thinking">
      <summary>{thinking ? "Thinking" : "Thought"}{took !== null && took !== undefined && ` for ${milliseconds(took)}`}</summary>
      <GrowingText live={growing} text={node.thinking} read={(answer) => answer.thinking} />
    </details>
  );
}

function Outcome({ node, growing }) {
  const place = useRef();
  useEffect(() => {
    if (!growing) return undefined;
    const write = () => { if (place.current && growing.first !== null) place.current.textContent = figuresLine(growing.figures()); };
    const timer = setInterval(write, 250);
    return () => clearInterval(timer);
  }, [growing]);
  if (growing) return <p class="outcome"><span class="pulse-dot" aria-hidden="true" /><span class="figures" ref={place}>Waiting for the first token</span></p>;
  const bad = node.status === "failed" || node.status === "cut";
  if (node.status === "streaming") return <p class="outcome">This answer is being written in another tab.</p>;
  return (
    <div class={`outcome${bad ? " bad" : ""}`}>
      {node.note && <p class="note" role={bad ? "alert" : undefined}>{node.note}</p>}
      {CONTINUABLE.includes(node.status) && node.text && <button type="button" class="quiet framed" onClick={() => attempt(() => continueAnswer(node))}>Continue</button>}
      {bad && <button type="button" class="quiet framed" onClick={() => attempt(() => regenerate(node))}>Try again</button>}
      {node.figures && <p class="figures">{figuresLine(node.figures)}</p>}
    </div>
  );
}

function Branches({ node }) {
  const all = siblingsOf(nodes.value, node);
  if (all.length < 2) return null;
  const at = all.findIndex((one) => one.id === node.id);
  return (
    <span class="branches">
      <IconButton icon="left" label="Branch before" disabled={at === 0} onClick={() => stepTo(all[at - 1].id)} />
      <span aria-label={`Branch ${at + 1} of ${all.length}`}>{at + 1}/{all.length}</span>
      <IconButton icon="right" label="Branch after" disabled={at + 1 === all.length} onClick={() => stepTo(all[at + 1].id)} />
    </span>
  );
}

function Editor({ node, onDone }) {
  const place = useRef();
  useEffect(() => place.current.focus(), []);
  const save = (event) => {
    event?.preventDefault();
    const text = place.current.value.trim();
    if (!text) return;
    onDone();
    if (text !== node.text.trim()) attempt(() => (node.role === "user" ? resend(node, text) : rewrite(node, text)));
  };
  const keys = (event) => {
    if (event.key === "Escape") { event.stopPropagation(); onDone(); }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save(event);
  };
  return (
    <form class="editor" onSubmit={save}>
      <textarea ref={place} rows="4" aria-label="Text of the turn" defaultValue={node.text} onKeyDown={keys} />
      <div class="actions">
        <button type="button" class="quiet" onClick={onDone}>Cancel</button>
        <button type="submit" class="primary"><Icon name={node.role === "user" ? "send" : "edit"} /> {node.role === "user" ? "Send" : "Save"}</button>
      </div>
    </form>
  );
}
