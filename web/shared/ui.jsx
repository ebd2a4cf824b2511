// Parts that both pages are made of: dialogs, menus, fields, questions to the user, short messages.
import { signal } from "@preact/signals";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./icons.jsx";

export function IconButton({ icon, label, ...rest }) {
  return (
    <button type="button" class="icon-button" aria-label={label} title={label} {...rest}>
      <Icon name={icon} />
    </button>
  );
}

// A modal dialog for as long as it is rendered. `onClose` hears of Escape, of a click beside it and of its close button.
export function Dialog({ title, onClose, wide = false, children }) {
  const place = useRef();
  const id = useId();
  useLayoutEffect(() => {
    const dialog = place.current;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return (
    <dialog ref={place} class={wide ? "wide" : ""} aria-labelledby={id} onCancel={(event) => { event.preventDefault(); onClose(); }}
      onMouseDown={(event) => { if (event.target === place.current) onClose(); }}>
      <div class="dialog-body">
        <header>
          <h2 id={id}>{title}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </header>
        {children}
      </div>
    </dialog>
  );
}

// A button and the list of actions that it opens: items are {label, run, bad}; falsy ones are left out.
export function Menu({ label, items, icon = "more" }) {
  const [open, setOpen] = useState(false);
  const button = useRef();
  const list = useRef();
  useLayoutEffect(() => {
    if (!open) return undefined;
    const popover = list.current;
    popover.showPopover();
    const { left, right, bottom, top } = button.current.getBoundingClientRect();
    const { width, height } = popover.getBoundingClientRect();
    popover.style.left = `${Math.max(8, Math.min(right - width, innerWidth - width - 8, left))}px`;
    popover.style.top = `${bottom + height + 8 > innerHeight ? Math.max(8, top - height - 4) : bottom + 4}px`;
    popover.querySelector("button")?.focus();
    const closed = (event) => { if (event.newState === "closed") setOpen(false); };
    popover.addEventListener("toggle", closed);
    return () => popover.removeEventListener("toggle", closed);
  }, [open]);
  const step = (event) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    const all = [...list.current.querySelectorAll("button")];
    all[(all.indexOf(document.activeElement) + move + all.length) % all.length].focus();
  };
  return (
    <>
      <button type="button" class="icon-button" ref={button} aria-label={label} title={label} aria-haspopup="menu" aria-expanded={open}
        onClick={() => setOpen(!open)}><Icon name={icon} /></button>
      {open && (
        <div class="menu" role="menu" popover="auto" ref={list} aria-label={label} onKeyDown={step}>
          {items.filter(Boolean).map((item) => (
            <button type="button" role="menuitem" key={item.label} class={item.bad ? "bad" : ""}
              onClick={() => { setOpen(false); button.current?.focus(); item.run(); }}>{item.label}</button>
          ))}
        </div>
      )}
    </>
  );
}

export function Field({ label, hint, problem, wide, children }) {
  return (
    <label class={`field${wide ? " wide" : ""}`}>
      <span>{label}{hint && <small> {hint}</small>}</span>
      {children}
      {problem && <small class="problem" role="alert">{problem}</small>}
    </label>
  );
}

// Tabs by the pattern of ARIA: `tabs` are [name, label]; arrow keys move between them.
export function Tabs({ label, tabs, chosen, onChoose, panel }) {
  const step = (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    const at = tabs.findIndex(([name]) => name === chosen);
    const next = tabs[(at + move + tabs.length) % tabs.length][0];
    onChoose(next);
    event.currentTarget.querySelector(`[data-tab="${next}"]`).focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={step}>
      {tabs.map(([name, text]) => (
        <button type="button" role="tab" key={name} data-tab={name} id={`tab-${name}`} aria-selected={name === chosen} aria-controls={panel}
          tabIndex={name === chosen ? 0 : -1} onClick={() => onChoose(name)}>{text}</button>
      ))}
    </div>
  );
}

// ---- questions: one dialog at a time, asked from anywhere

const question = signal(null);

function put(kind, details) {
  return new Promise((resolve) => {
    question.value = { kind, ...details, resolve: (answer) => { question.value = null; resolve(answer); } };
  });
}

// Resolves to true or false.
export const confirmed = (title, text, action) => put("confirm", { title, text, action });
// Resolves to the text, or null.
export const asked = (title, label, value = "", action = "Save", more = {}) => put("ask", { title, label, value, action, ...more });

export function Questions() {
  const one = question.value;
  if (!one) return null;
  const no = () => one.resolve(one.kind === "ask" ? null : false);
  const submit = (event) => {
    event.preventDefault();
    one.resolve(one.kind === "ask" ? event.currentTarget.elements.answer.value : true);
  };
  return (
    <Dialog title={one.title} onClose={no} key={one.title}>
      <form onSubmit={submit}>
        {one.text && <p>{one.text}</p>}
        {one.kind === "ask" && (
          <Field label={one.label} wide><input name="answer" type={one.secret ? "password" : "text"} defaultValue={one.value}
            autocomplete={one.secret ? "current-password" : "off"} autofocus list={one.options && "question-options"} /></Field>
        )}
        {one.options && <datalist id="question-options">{one.options.map((option) => <option key={option} value={option} />)}</datalist>}
        <div class="actions">
          <button type="button" class="quiet" onClick={no}>Cancel</button>
          <button type="submit" class={one.kind === "confirm" ? "primary bad" : "primary"} autofocus={one.kind === "confirm"}>{one.action}</button>
        </div>
      </form>
    </Dialog>
  );
}

// ---- short messages at the foot of the page, read aloud

const notes = signal([]);
let numbers = 0;

export function notify(text, bad = false) {
  const note = { id: ++numbers, text, bad };
  notes.value = [...notes.value, note];
  setTimeout(() => { notes.value = notes.value.filter((one) => one !== note); }, bad ? 9000 : 4000);
}

// In the top layer, above every dialog: each note puts itself before what was opened since the last one.
export function Notes() {
  const place = useRef();
  const newest = notes.value.at(-1)?.id;
  useEffect(() => {
    if (place.current.matches(":popover-open")) place.current.hidePopover();
    place.current.showPopover();
  }, [newest]);
  return (
    <div class="notes" role="status" aria-live="polite" popover="manual" ref={place}>
      {notes.value.map((note) => <p key={note.id} class={note.bad ? "bad" : ""}>{note.text}</p>)}
    </div>
  );
}

// Runs an action of the user; what goes wrong is told in a note.
export async function attempt(action) {
  try {
    return await action();
  } catch (problem) {
    if (problem.name !== "AbortError") notify(problem.message, true);
    return undefined;
  }
}

// Seconds since `from`, for as long as it is shown.
export function useSeconds(from) {
  const [now, setNow] = useState(() => performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return Math.max(0, Math.round((now - from) / 1000));
}
