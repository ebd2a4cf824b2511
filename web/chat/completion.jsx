// Raw completion: the model continues a text as it stands, without a template.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { figuresLine } from "../shared/format.js";
import { generate, LiveAnswer } from "../shared/generate.js";
import { paced } from "../shared/pace.js";
import { attempt } from "../shared/ui.jsx";
import { samplingFields } from "./settings.js";
import { model, server, settings } from "./state.js";

const text = signal("");
const before = signal(null);   // the text before the last continuation
const running = signal(null);  // AbortController
const figures = signal("");

async function continueText(area) {
  const answer = new LiveAnswer();
  const start = text.value;
  before.value = start;
  running.value = new AbortController();
  figures.value = "Waiting for the first token";
  const paint = paced(() => {
    const atEnd = area.scrollHeight - area.scrollTop - area.clientHeight < 60;
    area.setRangeText(answer.text.slice(area.value.length - start.length), area.value.length, area.value.length, "preserve");
    if (atEnd) area.scrollTop = area.scrollHeight;
    figures.value = figuresLine(answer.figures());
  });
  answer.subscribe(paint);
  try {
    await generate(server, "v1/completions", { ...samplingFields(settings.value), model: model.value, prompt: start }, answer, { signal: running.value.signal });
  } finally {
    running.value = null;
    text.value = start + answer.text;
    figures.value = answer.first === null ? "Nothing came." : figuresLine(answer.figures());
  }
}

export function Completion() {
  const area = useRef();
  useEffect(() => { if (!running.value) area.current.value = text.value; });
  const go = () => attempt(() => continueText(area.current));
  const keys = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !running.value) { event.preventDefault(); go(); }
    if (event.key === "Escape") running.value?.abort();
  };
  return (
    <section class="tool" aria-label="Completion" onKeyDown={keys}>
      <textarea class="paper mono" ref={area} aria-label="Text to continue" spellcheck={false} readOnly={running.value !== null}
        placeholder="The model continues this text as it stands. No roles are added." onInput={(event) => { text.value = event.currentTarget.value; }} />
      <div class="actions start">
        {running.value
          ? <button type="button" class="primary" onClick={() => running.value.abort()}>Stop</button>
          : <button type="button" class="primary" disabled={text.value === ""} title="Ctrl+Enter" onClick={go}>Continue</button>}
        <button type="button" class="quiet framed" disabled={before.value === null || running.value !== null}
          onClick={() => { text.value = before.value; before.value = null; }}>Undo</button>
        <p class="soft" role="status">{figures.value}</p>
      </div>
    </section>
  );
}
