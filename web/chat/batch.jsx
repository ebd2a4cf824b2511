// Batch: many prompts in one request, one table of answers. The server runs as many rows at once as it has slots.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { copyText, pickFiles, saveFile } from "../shared/clipboard.js";
import { count, rate } from "../shared/format.js";
import { paced } from "../shared/pace.js";
import { eventsOf } from "../shared/sse.js";
import { attempt, Field, notify } from "../shared/ui.jsx";
import { samplingFields } from "./settings.js";
import { csvOf, rowsOf } from "./rows.js";
import { model, server, settings } from "./state.js";
import { questionPattern } from "./template.js";

const MOST_ROWS = 4096;

const prompts = signal("");
const template = signal("");    // empty: the model's own
const samples = signal("1");
const rows = signal([]);       // {prompt, text, finish}
const running = signal(null);
const figures = signal("");

async function run() {
  const { pattern, padZero } = template.value ? { pattern: template.value, padZero: false } : await questionPattern(model.value);
  const list = rowsOf(prompts.value, pattern, Math.max(1, Number(samples.value) || 1));
  if (list.length === 0 || list.length > MOST_ROWS) throw new Error(`There are ${list.length} rows; wanted 1 to ${MOST_ROWS}.`);
  rows.value = list;
  running.value = new AbortController();
  const begun = performance.now();
  let tokens = 0;
  const paint = paced(() => {
    rows.value = [...list];
    const seconds = (performance.now() - begun) / 1000;
    const done = list.filter((row) => row.finish).length;
    figures.value = `${done} of ${list.length} done · ${count(tokens, "piece")} · ${rate(tokens / seconds)} a second`;
  });
  try {
    const response = await server.send("v1/batch/completions", {
      method: "POST", signal: running.value.signal,
      json: { ...samplingFields(settings.value), model: model.value, contents: list.map((row) => row.sent), pad_zero: padZero, stream: true, chunk_size: 1 },
    });
    for await (const event of eventsOf(response)) {
      if (event.error) throw new Error(event.error.message ?? event.error);
      for (const { index, delta, finish_reason: finish } of event.choices ?? []) {
        list[index].text += delta.content;
        list[index].finish = finish ?? null;
        tokens += 1;
      }
      paint();
    }
  } finally {
    running.value = null;
    paint();
  }
}

function Results() {
  if (rows.value.length === 0) return null;
  return (
    <div class="table" tabindex="0" role="region" aria-label="Answers">
      <table class="batch-table">
        <thead><tr><th scope="col">#</th><th scope="col">Prompt</th><th scope="col">Answer</th><th scope="col">Ended</th></tr></thead>
        <tbody>
          {rows.value.map((row, i) => (
            <tr key={i}><td class="number">{i + 1}</td><td>{row.prompt}</td><td class="answer">{row.text.trim()}</td><td class="soft">{row.finish ?? (running.value ? "…" : "cut off")}</td></tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Batch() {
  const area = useRef();
  const [own, setOwn] = useState("");
  useEffect(() => { questionPattern(model.value).then(({ pattern }) => setOwn(pattern.replaceAll("\n", "\\n")), () => setOwn("")); }, [model.value]);
  const readFile = async () => {
    const [file] = await pickFiles({ accept: ".txt,.csv,text/plain" });
    if (file) prompts.value = await file.text();
  };
  return (
    <section class="tool wide" aria-label="Batch">
      <Field label="Prompts" hint="one a line" wide>
        <textarea ref={area} rows="6" value={prompts.value} onInput={(event) => { prompts.value = event.currentTarget.value; }}
          placeholder={"What is 12 + 30?\nReverse: stone"} />
      </Field>
      <div class="inline">
        <Field label="Template" hint="{} is the prompt; empty: the model's own"><input class="mono" value={template.value} placeholder={own} onInput={(event) => { template.value = event.currentTarget.value; }} /></Field>
        <Field label="Answers to each"><input type="number" min="1" max="64" value={samples.value} onInput={(event) => { samples.value = event.currentTarget.value; }} /></Field>
      </div>
      <div class="actions start">
        {running.value
          ? <button type="button" class="primary" onClick={() => running.value.abort()}>Stop</button>
          : <button type="button" class="primary" disabled={!prompts.value.trim()} onClick={() => attempt(run)}>Run</button>}
        <button type="button" class="quiet framed" onClick={() => attempt(readFile)}>Open a file</button>
        <button type="button" class="quiet framed" disabled={rows.value.length === 0} onClick={() => saveFile("fulmar batch.csv", csvOf(rows.value), "text/csv")}>Save as CSV</button>
        <button type="button" class="quiet framed" disabled={rows.value.length === 0}
          onClick={async () => notify(await copyText(rows.value.map((row) => row.text.trim()).join("\n")) ? "Answers copied" : "Not copied")}>Copy answers</button>
        <p class="soft" role="status">{figures.value}</p>
      </div>
      <Results />
    </section>
  );
}
