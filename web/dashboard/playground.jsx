// One question to one worker, by the chat page's own parts: the same stream, the same Markdown, the same figures.
import { useEffect, useRef, useState } from "preact/hooks";
import { figuresLine } from "../shared/format.js";
import { generate, LiveAnswer } from "../shared/generate.js";
import { GrowingText, MarkdownView } from "../shared/markdown_view.jsx";
import { Field } from "../shared/ui.jsx";
import { proxied } from "./fleet.js";

const NUMBERS = [
  ["max_tokens", "Most tokens", 256, 1, 65536], ["temperature", "Temperature", 0.3, 0, 5], ["top_p", "Top p", 0.8, 0, 1], ["top_k", "Top k", 0, 0, 65536],
];

export function Playground({ worker }) {
  const [mode, setMode] = useState("chat");
  const [answer, setAnswer] = useState(null);   // the LiveAnswer shown
  const [abort, setAbort] = useState(null);     // its AbortController while it runs
  const [note, setNote] = useState({ text: "", bad: false });
  const running = useRef(null);
  useEffect(() => () => running.current?.abort(), []);
  const send = async (event) => {
    event.preventDefault();
    if (abort) return;
    const { prompt, ...numbers } = Object.fromEntries(new FormData(event.currentTarget));
    delete numbers.mode;
    const body = Object.fromEntries(Object.entries(numbers).filter(([, value]) => value !== "").map(([name, value]) => [name, Number(value)]));
    const live = new LiveAnswer();
    const control = new AbortController();
    running.current = control;
    setAnswer(live);
    setAbort(control);
    setNote({ text: "Waiting for the first token", bad: false });
    try {
      if (mode === "chat") await generate(proxied(worker.worker_id), "v1/chat/completions", { ...body, messages: [{ role: "user", content: prompt }] }, live, { signal: control.signal });
      else await generate(proxied(worker.worker_id), "v1/completions", { ...body, prompt }, live, { signal: control.signal });
      setNote({ text: figuresLine(live.figures()), bad: false });
    } catch (problem) {
      setNote(problem.name === "AbortError" ? { text: `${figuresLine(live.figures())} · stopped`, bad: false } : { text: problem.message, bad: true });
    }
    setAbort(null);
  };
  const keys = (event) => {
    if (event.key === "Escape") abort?.abort();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.target.name !== "prompt") return;
    event.preventDefault();
    event.currentTarget.requestSubmit();
  };
  return (
    <form class="play" onSubmit={send} onKeyDown={keys}>
      <div class="modes" role="radiogroup" aria-label="Kind of request">
        {[["chat", "Chat"], ["completion", "Completion"]].map(([value, label]) => (
          <label key={value} class="check"><input type="radio" name="mode" value={value} checked={mode === value} onChange={() => setMode(value)} /> {label}</label>
        ))}
      </div>
      <Field label={mode === "chat" ? "Message" : "Text to continue"} wide><textarea id="prompt" name="prompt" rows="3" required placeholder="What is 12 + 30?" /></Field>
      <div class="grid">{NUMBERS.map(([name, label, value, min, max]) => <Field key={name} label={label}><input type="number" name={name} defaultValue={value} min={min} max={max} step="any" /></Field>)}</div>
      <div class="actions start">
        {abort
          ? <button type="button" class="primary" onClick={() => abort.abort()}>Stop</button>
          : <button type="submit" class="primary" disabled={!worker.ready}>Send</button>}
        <p class={note.bad ? "problem" : "soft"} role="status" id="play-figures">{note.text}</p>
      </div>
      {answer && (
        <div class="answer" tabindex="0" role="region" aria-label="Answer">
          {mode === "chat" ? <MarkdownView live={abort && answer} text={answer.text} /> : <GrowingText live={abort && answer} text={answer.text} read={(one) => one.text} />}
        </div>
      )}
    </form>
  );
}
