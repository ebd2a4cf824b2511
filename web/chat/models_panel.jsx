// Models, tuned states and the state of the conversation: load, remove, send up, bring down.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { fileTitle, pickFiles, saveFile } from "../shared/clipboard.js";
import { bytes, modelName } from "../shared/format.js";
import { attempt, confirmed, Dialog, Field, notify, useSeconds } from "../shared/ui.jsx";
import { Pull } from "./pull.jsx";
import { basisOf } from "./settings.js";
import { addNode, available, changeConversation, chooseModel, createConversation, current, loadModels, model, models, path, server, sessionName, settings } from "./state.js";

export const modelsShown = signal(false);

const job = signal(null);  // {text, since}: what the server is busy with

// Runs one job at a time, shows how long it takes, and reads the lists again.
async function busyWith(text, work) {
  job.value = { text, since: performance.now() };
  try {
    await work();
    await loadModels();
  } finally {
    job.value = null;
  }
}

function Progress() {
  const seconds = useSeconds(job.value.since);
  return <p class="progress" role="status"><progress aria-label={job.value.text} /> {job.value.text}: {seconds} s</p>;
}

const load = (event) => {
  event.preventDefault();
  const form = event.currentTarget;
  const { file, name } = form.elements;
  const id = name.value.trim() || modelName(file.value.trim());
  attempt(() => busyWith(`Loading ${id}`, async () => {
    await server.post("loadmodel", { model_filename: file.value.trim(), model_viewname: id });
    form.reset();
    notify(`${id} is loaded.`);
  }));
};

async function remove(id) {
  if (!await confirmed("Remove this model?", `${id} leaves the server's memory; its file stays. Running answers come to their end.`, "Remove")) return;
  await busyWith(`Removing ${id}`, () => server.post("removemodel", { model_viewname: id }));
}

async function sendTuned(reread) {
  const [file] = await pickFiles({ accept: ".pth,.safetensors" });
  if (!file) return;
  const form = new FormData();
  form.append("file", file, file.name);
  await busyWith(`Sending ${file.name} (${bytes(file.size)})`, () => server.send("v1/state/upload", { method: "POST", body: form }));
  await reread();
}

async function dropTuned(id, reread) {
  if (!await confirmed("Delete this tuned state?", `The file of ${id} on the server will be gone.`, "Delete")) return;
  await busyWith(`Deleting ${id}`, () => server.post("v1/state/delete", { state_id: id }));
  await reread();
}

// ---- the conversation's own state as a file

async function download(node) {
  const response = await server.send(`v1/sessions/${encodeURIComponent(node.session)}/state`);
  saveFile(`${fileTitle(current.value.title)}.state`, await response.blob(), "application/octet-stream");
}

// A conversation that goes on from the state in a file: what was said before is in the state only.
async function upload() {
  const [file] = await pickFiles({ accept: ".state" });
  if (!file) return;
  const one = await createConversation(file.name.replace(/\.state$/, ""));
  const node = await addNode({
    conversation: one.id, role: "assistant", text: "", note: `Goes on from the state in ${file.name}.`, model: model.value, basis: basisOf(model.value, settings.value),
  });
  const session = sessionName(one.id, node.id);
  await server.send(`v1/sessions/${encodeURIComponent(session)}/state?model=${encodeURIComponent(model.value)}`, { method: "PUT", body: file });
  await addNode({ ...node, session });
  await changeConversation(one.id, { leaf: node.id });
  modelsShown.value = false;
}

function ModelList() {
  return (
    <ul class="rows" aria-label="Models">
      {models.value.map((one) => (
        <li key={one.id}>
          <label class="check"><input type="radio" name="chosen-model" checked={one.id === model.value} onChange={() => chooseModel(one.id)} /> <span class="mono">{one.id}</span></label>
          {!one.id.includes(" ") && <button type="button" class="quiet framed" disabled={job.value !== null} onClick={() => attempt(() => remove(one.id))} aria-label={`Remove ${one.id}`}>Remove</button>}
        </li>
      ))}
      {available.value.map((id) => (
        <li key={id}><span class="mono soft">{id}</span><button type="button" class="quiet framed" disabled={job.value !== null} aria-label={`Load ${id}`}
          onClick={() => attempt(() => busyWith(`Loading ${id}`, () => server.post("v1/model/load", { model: id })))}>Load in its place</button></li>
      ))}
      {models.value.length === 0 && <li class="soft">No model is loaded.</li>}
    </ul>
  );
}

export function ModelsPanel() {
  const [tuned, setTuned] = useState([]);
  const reread = async () => setTuned((await server.get("v1/state/list")).data);
  useEffect(() => { attempt(loadModels); attempt(reread); }, []);
  const holder = path.value.findLast((node) => node.session);
  return (
    <Dialog title="Models and states" wide onClose={() => { modelsShown.value = false; }}>
      {job.value && <Progress />}
      <h3>Models</h3>
      <ModelList />
      <form class="inline" onSubmit={load}>
        <Field label="File on the server"><input name="file" required autocomplete="off" spellcheck={false} placeholder="models/rwkv7-g1.pth" /></Field>
        <Field label="Name"><input name="name" autocomplete="off" placeholder="of the file" /></Field>
        <button type="submit" class="quiet framed" disabled={job.value !== null}>Load</button>
      </form>
      <Pull />
      <h3>Tuned states <small>start a conversation in a trained manner; they are listed as MODEL STATE above</small></h3>
      <ul class="rows" aria-label="Tuned states">
        {tuned.map((one) => (
          <li key={one.state_id}><span class="mono">{one.state_id}</span> <span class="soft">{bytes(one.size_bytes)}</span>
            <button type="button" class="quiet framed" aria-label={`Delete ${one.state_id}`} onClick={() => attempt(() => dropTuned(one.state_id, reread))}>Delete</button></li>
        ))}
      </ul>
      <div class="actions start">
        <button type="button" class="quiet framed" disabled={job.value !== null} onClick={() => attempt(() => sendTuned(reread))}>Send a tuned state</button>
      </div>
      <h3>State of this conversation <small>everything the model has read and said, as one file</small></h3>
      <div class="actions start">
        <button type="button" class="quiet framed" disabled={!holder} onClick={() => attempt(() => download(holder))}>Download</button>
        <button type="button" class="quiet framed" onClick={() => attempt(upload)}>Continue from a file</button>
      </div>
    </Dialog>
  );
}
