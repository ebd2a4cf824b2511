// Getting a model from the server's hub: what is under way, how far each file is, and calling it off.
import { signal } from "@preact/signals";
import { bytes, modelName } from "../shared/format.js";
import { valuesOf } from "../shared/lines.js";
import { attempt, Field, notify } from "../shared/ui.jsx";
import { chooseModel, loadModels, server } from "./state.js";

const pulling = signal(null);  // {name, file, completed, total, abort}

// Streams the server's lines into `pulling`; resolves to the model's name on the server. The server keeps what has come
// when the page leaves, and the next pull goes on from there.
async function pull(name) {
  const abort = new AbortController();
  pulling.value = { name, file: "", completed: 0, total: 0, abort };
  const response = await server.send("api/pull", { method: "POST", json: { model: name }, signal: abort.signal });
  for await (const { error, status, completed = 0, total = 0, model } of valuesOf(response)) {
    if (error) throw new Error(error.message ?? error);
    if (status === "success") return model;
    const file = status.startsWith("pulling ") && total > 0 ? status.slice("pulling ".length) : "";
    pulling.value = { ...pulling.value, file, completed, total };
  }
  throw new Error(`${name}: the server ended before it was done.`);
}

async function pullAndLoad(name) {
  try {
    const file = await pull(name);
    pulling.value = { ...pulling.value, file: "", loading: file };
    const id = modelName(file);
    await server.post("loadmodel", { model_filename: file, model_viewname: id });
    await loadModels();
    await chooseModel(id);
    notify(`${id} is here and loaded.`);
  } catch (problem) {
    if (problem.name !== "AbortError") throw problem;
    notify(`${name}: called off. What has come is kept.`);
  } finally {
    pulling.value = null;
  }
}

function Under() {
  const { name, file, completed, total, loading, abort } = pulling.value;
  const text = loading ? `Loading ${loading}` : file ? `${file}: ${bytes(completed)} of ${bytes(total)}` : `Asking for ${name}`;
  return (
    <div class="progress" role="status">
      {total > 0 && !loading ? <progress aria-label={`Getting ${name}`} max={total} value={completed} /> : <progress aria-label={`Getting ${name}`} />}
      <span>{text}</span>
      {!loading && <button type="button" class="quiet framed" onClick={() => abort.abort()}>Call it off</button>}
    </div>
  );
}

export function Pull() {
  const begin = (event) => {
    event.preventDefault();
    const { hub } = event.currentTarget.elements;
    attempt(() => pullAndLoad(hub.value.trim()));
  };
  if (pulling.value) return <Under />;
  return (
    <form class="inline" onSubmit={begin}>
      <Field label="From the server's hub" hint="OWNER/NAME, or OWNER/NAME:FILE">
        <input name="hub" required autocomplete="off" spellcheck={false} pattern="\s*[^\s\/]+\/[^\s\/:]+(:\S+)?\s*" placeholder="owner/rwkv7-g1-1.5b" />
      </Field>
      <button type="submit" class="quiet framed">Get and load</button>
    </form>
  );
}
