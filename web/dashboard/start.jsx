// The dialog that starts a worker. What is wrong is said beside its field, in words.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { bytes } from "../shared/format.js";
import { attempt, Dialog, Field } from "../shared/ui.jsx";
import { gpus, refresh, server } from "./fleet.js";
import { plainProblem } from "./problems.js";

const shown = signal(false);
export const openStart = () => { shown.value = true; };

const NUMBERS = [
  { name: "port", label: "Port", hint: "empty: a free one", min: 1, max: 65535 },
  { name: "max_batch_size", label: "Rows at once", min: 1, max: 4096, value: 64 },
  { name: "max_queue_size", label: "Rows in the queue", min: 1, max: 1_000_000, value: 1000 },
  { name: "prefill_chunk_size", label: "Prompt tokens a step", min: 1, max: 65536, value: 512 },
];

function requestOf(form) {
  const entries = [...new FormData(form)].filter(([, value]) => value !== "");
  return Object.fromEntries(entries.map(([name, value]) => [name, form.elements[name].type === "number" || name === "gpu_id" ? Number(value) : value.trim()]));
}

const localProblems = (form) => Object.fromEntries([...form.elements].filter((field) => field.name && !field.validity.valid)
  .map((field) => [field.name, field.validity.valueMissing ? "Wanted: a model file." : `Wanted: ${field.min} to ${field.max}.`]));

function StartForm({ onDone }) {
  const [problems, setProblems] = useState({});
  const [files, setFiles] = useState(null);
  const [path, setPath] = useState("");
  useEffect(() => { attempt(async () => setFiles(await server.get("api/models"))); }, []);
  const submit = async (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const wrong = localProblems(form);
    setProblems(wrong);
    if (Object.keys(wrong).length > 0) return form.elements[Object.keys(wrong)[0]].focus();
    try {
      const worker = await server.post("api/workers/start", requestOf(form));
      await refresh();
      onDone(worker);
    } catch (problem) {
      const found = Array.isArray(problem.detail)
        ? Object.fromEntries(problem.detail.map((item) => [item.loc.at(-1), plainProblem(item.msg)])) : { form: plainProblem(problem.message) };
      setProblems(found);
      form.elements[Object.keys(found)[0]]?.focus();
    }
    return undefined;
  };
  const invalid = (name) => ({ name, "aria-invalid": name in problems });
  return (
    <form onSubmit={submit} noValidate>
      {files?.confined && (
        <Field label="Model" hint="in the models folder" wide>
          <select id="picker" onChange={(event) => setPath(event.currentTarget.value)}>
            <option value="">{files.files.length > 0 ? "Choose a file" : "No model file there"}</option>
            {files.files.map((file) => <option key={file.path} value={file.path}>{file.path} ({bytes(file.bytes)})</option>)}
          </select>
        </Field>
      )}
      <Field label="Model file" wide problem={problems.model_path}>
        <input {...invalid("model_path")} required autocomplete="off" spellcheck={false} placeholder="path of a .pth, .safetensors or .gguf file, or of a folder" value={path} onInput={(event) => setPath(event.currentTarget.value)} />
      </Field>
      <div class="grid">
        <Field label="Name" hint="empty: none" problem={problems.name}><input {...invalid("name")} maxLength="64" autocomplete="off" placeholder="chat" /></Field>
        <Field label="Runs on" problem={problems.gpu_id}>
          <select {...invalid("gpu_id")}>
            <option value="">{gpus.value.length > 0 ? "any GPU" : "CPU: no GPU here"}</option>
            {gpus.value.map((gpu) => <option key={gpu.index} value={gpu.index}>GPU {gpu.index} {gpu.name}</option>)}
          </select>
        </Field>
        <Field label="Restart">
          <select name="restart" defaultValue="on-failure"><option value="on-failure" selected>after a crash</option><option value="always">always</option><option value="off">never</option></select>
        </Field>
        {NUMBERS.map((field) => (
          <Field key={field.name} label={field.label} hint={field.hint} problem={problems[field.name]}>
            <input type="number" {...invalid(field.name)} min={field.min} max={field.max} defaultValue={field.value} />
          </Field>
        ))}
      </div>
      {problems.form && <p class="problem" role="alert">{problems.form}</p>}
      <div class="actions">
        <button type="button" class="quiet" onClick={() => onDone(null)}>Cancel</button>
        <button type="submit" class="primary">Start</button>
      </div>
    </form>
  );
}

export function StartDialog() {
  if (!shown.value) return null;
  const close = () => { shown.value = false; };
  return <Dialog title="Start a worker" wide onClose={close}><StartForm onDone={close} /></Dialog>;
}
