// What the dashboard shows, as signals, and the questions to the control plane that keep them fresh. Knows no HTML.
import { batch, computed, signal } from "@preact/signals";
import { modelName } from "../shared/format.js";
import { Server, ServerError } from "../shared/http.js";
import { alertsOf } from "./alerts.js";
import { mergeSeries } from "./series.js";

const REFRESH_MS = 2000;
const MINUTES_MS = 30_000;

export const server = new Server();
export const workers = signal(null);     // as /api/workers lists them; null before the first answer
export const gpus = signal([]);
export const version = signal("");
export const events = signal([]);        // newest last
export const fine = signal(new Map());   // series of the last hour, by name
export const minutes = signal(new Map()); // of the last day
export const lost = signal("");          // why the control plane does not answer
export const address = signal(location.hash);

export const chosen = computed(() => {
  const id = /^#worker\/(.+)$/.exec(address.value)?.[1];
  return workers.value?.find((one) => one.worker_id === id) ?? null;
});
export const alerts = computed(() => alertsOf({ workers: workers.value ?? [], gpus: gpus.value, lost: lost.value }));

export const titleOf = (worker) => worker.name || `${modelName(worker.spec.model_path)} ${worker.worker_id.slice(-4)}`;
export const seriesOf = (worker) => worker.name || worker.worker_id;
export const proxied = (id) => server.below(`api/workers/${id}/proxy/`);

const newest = (map) => Math.max(0, ...[...map.values()].map((series) => series.time.at(-1) ?? 0));

async function refreshMinutes() {
  const { workers: fresh } = await server.get(`api/history?step=minute&since=${newest(minutes.value)}`);
  minutes.value = mergeSeries(minutes.value, fresh, Date.now() / 1000 - 86_400);
}

export async function refresh() {
  try {
    const since = events.value.at(-1)?.time ?? 0;
    const [list, system, history, happened] = await Promise.all([
      server.get("api/workers"), server.get("api/system"), server.get(`api/history?since=${newest(fine.value)}`), server.get(`api/events?since=${since}`),
    ]);
    batch(() => {
      workers.value = list;
      gpus.value = system.gpus;
      version.value = system.python.version;
      fine.value = mergeSeries(fine.value, history.workers, Date.now() / 1000 - 3600);
      // A control plane that was restarted has events of its own.
      if (happened.events.length > 0) events.value = [...events.value, ...happened.events].slice(-500);
      lost.value = "";
    });
  } catch (problem) {
    lost.value = problem instanceof ServerError && problem.status === 0 ? "The control plane does not answer." : problem.message;
  }
}

export function begin() {
  addEventListener("hashchange", () => { address.value = location.hash; });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  const again = async () => {
    if (!document.hidden) await refresh();
    setTimeout(again, REFRESH_MS);
  };
  const aside = async () => {
    if (!document.hidden) await refreshMinutes().catch(() => {});
    setTimeout(aside, MINUTES_MS);
  };
  again();
  aside();
}

// ---- actions

const post = (path, body) => server.post(path, body);
export const stopWorker = (id) => post(`api/workers/${id}/stop`).then(refresh);
export const drainWorker = (id) => post(`api/workers/${id}/drain`).then(refresh);
export const restartWorker = (id) => post(`api/workers/${id}/restart`).then(refresh);
export const restartAll = () => post("api/workers/restart").then(refresh);
export const removeWorker = (id) => server.delete(`api/workers/${id}`).then(refresh);
