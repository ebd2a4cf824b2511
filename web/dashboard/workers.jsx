// The fleet: alerts, workers with what can be done with each, GPUs, and what has happened.
import { useState } from "preact/hooks";
import { ago, bytes, clock, fileName, rate } from "../shared/format.js";
import { attempt, confirmed, Menu } from "../shared/ui.jsx";
import { conditionOf, deviceOf } from "./alerts.js";
import { Charts } from "./charts.jsx";
import { alerts, drainWorker, events, gpus, removeWorker, restartWorker, seriesOf, stopWorker, titleOf, workers } from "./fleet.js";
import { openStart } from "./start.jsx";

export function Badge({ worker }) {
  const { kind, text } = conditionOf(worker);
  return <span class={`badge ${kind}`} data-phase={worker.phase}>{text}</span>;
}

const running = (worker) => `${worker.rows_running} running, ${worker.rows_waiting} queued`;

export async function stop(worker) {
  const busy = worker.rows_running + worker.rows_waiting;
  const text = busy > 0 ? `It has ${running(worker)}; they are cut off. Drain lets them finish.` : "Its sessions are written to the disk.";
  if (await confirmed(`Stop ${titleOf(worker)}?`, text, "Stop")) await stopWorker(worker.worker_id);
}

async function restart(worker) {
  const text = worker.status === "running" ? `It takes no new requests, finishes what it has (${running(worker)}) within a minute, and starts again.` : "It starts again as it was.";
  if (await confirmed(`Restart ${titleOf(worker)}?`, text, "Restart")) await restartWorker(worker.worker_id);
}

async function remove(worker) {
  if (await confirmed(`Remove ${titleOf(worker)}?`, "It leaves the list with its log and figures.", "Remove")) await removeWorker(worker.worker_id);
}

export function WorkerMenu({ worker }) {
  const over = worker.phase === "exited";
  const act = (action) => () => attempt(action);
  return (
    <Menu label={`Actions for ${titleOf(worker)}`} items={[
      worker.ready && { label: "Open its chat page", run: () => window.open(`api/workers/${worker.worker_id}/proxy/`, "_blank", "noopener") },
      !over && worker.phase !== "draining" && { label: "Drain and stop", run: act(() => drainWorker(worker.worker_id)) },
      { label: over ? "Start again" : "Restart", run: act(() => restart(worker)) },
      !over && { label: "Stop", bad: true, run: act(() => stop(worker)) },
      over && { label: "Remove", bad: true, run: act(() => remove(worker)) },
    ]} />
  );
}

function Row({ worker }) {
  const title = titleOf(worker);
  return (
    <tr data-worker={worker.worker_id}>
      <th scope="row" data-label="Worker"><a href={`#worker/${worker.worker_id}`}>{title}</a></th>
      <td data-label="Status" class="wide-cell"><Badge worker={worker} /></td>
      <td data-label="Model" class="model-cell" title={worker.spec.model_path}>{fileName(worker.spec.model_path)}</td>
      <td data-label="Runs on" class="half-cell">{deviceOf(worker, gpus.value)}</td>
      <td data-label="Endpoint" class="mono half-cell">{worker.endpoint.replace("http://", "")}</td>
      <td data-label="Tokens/s" class="number">{rate(worker.tokens_per_second)}</td>
      <td data-label="Running" class="number">{worker.rows_running}</td>
      <td data-label="Queued" class="number">{worker.rows_waiting}</td>
      <td data-label="Memory" class="number">{bytes(worker.memory_bytes)}</td>
      <td class="row-actions"><WorkerMenu worker={worker} /></td>
    </tr>
  );
}

const COLUMNS = ["Worker", "Status", "Model", "Runs on", "Endpoint", "Tokens/s", "Running", "Queued", "Memory"];

function Workers() {
  if (workers.value.length === 0) {
    return (
      <section class="panel empty" aria-label="Workers">
        <h2>No worker yet</h2>
        <p class="soft">A worker is one server process with one model. Requests go to any that has the model.</p>
        <button type="button" class="primary" onClick={openStart}>Start a worker</button>
      </section>
    );
  }
  return (
    <section class="panel" aria-labelledby="workers-title">
      <div class="head"><h2 id="workers-title">Workers</h2></div>
      <div class="table" tabindex="0" role="region" aria-label="Table of workers">
        <table class="fleet">
          <thead><tr>{COLUMNS.map((name, i) => <th scope="col" key={name} class={i > 4 ? "number" : ""}>{name}</th>)}<th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>{workers.value.map((worker) => <Row key={worker.worker_id} worker={worker} />)}</tbody>
        </table>
      </div>
    </section>
  );
}

export function Alerts({ of }) {
  const list = alerts.value.filter((one) => !of || one.worker === of);
  if (list.length === 0) return null;
  return (
    <div role="alert">
      <ul class="alerts" aria-label="Needs attention">
        {list.map((one) => <li key={one.text} class={one.kind}>{one.text}{one.worker && !of && <> <a href={`#worker/${one.worker}`}>Look</a></>}</li>)}
      </ul>
    </div>
  );
}

function Gpus() {
  return (
    <section class="panel" aria-labelledby="gpus-title">
      <div class="head"><h2 id="gpus-title">GPUs</h2></div>
      {gpus.value.length === 0 && <p class="soft">No NVIDIA GPU here: workers run on the CPU.</p>}
      <ul class="gpus">
        {gpus.value.map((gpu) => (
          <li key={gpu.index}>
            <h3>GPU {gpu.index} <small>{gpu.name}</small></h3>
            <meter min="0" max={gpu.memory_total_mb} value={gpu.memory_used_mb} aria-label={`Memory of GPU ${gpu.index}`} />
            <p class="soft">
              {[`${bytes(gpu.memory_used_mb * 2 ** 20)} of ${bytes(gpu.memory_total_mb * 2 ** 20)}`,
                gpu.utilization !== undefined && `${gpu.utilization} % busy`, gpu.power !== undefined && `${gpu.power} W`,
                gpu.temperature !== undefined && `${gpu.temperature} °C`].filter(Boolean).join(" · ")}
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}

const BAD = ["crashed", "failed", "unresponsive"];
const SHORTEST_LIST = 12;

export function Events({ of }) {
  const [all, setAll] = useState(false);
  const list = events.value.filter((one) => !of || one.worker_id === of).toReversed();
  const now = Date.now() / 1000;
  const names = new Map((workers.value ?? []).map((worker) => [worker.worker_id, titleOf(worker)]));
  return (
    <section class="panel" aria-labelledby="events-title">
      <div class="head"><h2 id="events-title">Events</h2></div>
      {list.length === 0 && <p class="soft">Nothing has happened yet.</p>}
      <ol class="events">
        {list.slice(0, all ? list.length : SHORTEST_LIST).map((one) => (
          <li key={`${one.time}${one.worker_id}${one.kind}`} class={BAD.includes(one.kind) ? "bad" : one.kind === "ready" ? "good" : ""}>
            <time datetime={new Date(one.time * 1000).toISOString()} title={ago(now - one.time)}>{clock(one.time)}</time>
            <span><strong>{one.kind}</strong>{!of && one.worker_id && ` ${names.get(one.worker_id) ?? (one.name || one.worker_id)}`}{one.text && `: ${one.text}`}
              {one.lines.length > 0 && <details><summary>Last lines</summary><pre tabindex="0">{one.lines.join("\n")}</pre></details>}</span>
          </li>
        ))}
      </ol>
      {!all && list.length > SHORTEST_LIST && <button type="button" class="quiet framed" onClick={() => setAll(true)}>All {list.length} events</button>}
    </section>
  );
}

export function Fleet() {
  if (workers.value === null) return <p class="soft">Asking the control plane</p>;
  const members = workers.value.filter((worker) => worker.phase !== "exited").map((worker) => [seriesOf(worker), titleOf(worker)]);
  return (
    <>
      <Alerts />
      <Workers />
      {workers.value.length > 0 && <Charts members={members} title="Load" />}
      <div class="pair"><Events /><Gpus /></div>
    </>
  );
}
