// What needs a person, from what the control plane says. Pure.

const HOT = 87;         // degrees Celsius
const FULL = 0.97;      // of a GPU's memory
const FLAPPING = 3;     // restarts

const named = (worker) => worker.name || worker.worker_id;
const lastLine = (lines) => lines.filter((line) => line.trim()).at(-1) ?? "";

// Whether a worker was pinned to a GPU that this machine does not have: it runs on the CPU.
export const lacksGpu = (worker, gpus) => worker.spec.gpu_id !== null && !gpus.some((gpu) => gpu.index === worker.spec.gpu_id);

export function deviceOf(worker, gpus) {
  const { gpu_id: gpu, spread } = worker.spec;
  if (spread) return `several GPUs: ${spread}`;
  if (gpu === null) return gpus.length > 0 ? "any GPU" : "CPU";
  return lacksGpu(worker, gpus) ? `no GPU ${gpu}: runs on the CPU` : `GPU ${gpu}`;
}

// Phase of a worker in words, and how it is meant: good, busy, bad or idle.
export function conditionOf(worker) {
  const restarted = worker.restarts > 0 ? `, restarted ${worker.restarts === 1 ? "once" : `${worker.restarts} times`}` : "";
  switch (worker.phase) {
    case "ready": return { kind: restarted && worker.crash ? "warn" : "good", text: `ready${restarted}` };
    case "starting": return { kind: "busy", text: `loading${restarted}` };
    case "unresponsive": return { kind: "bad", text: "does not answer" };
    case "draining": return { kind: "busy", text: "draining" };
    case "stopping": return { kind: "busy", text: "stopping" };
    case "waiting": return { kind: worker.crash ? "bad" : "busy", text: worker.crash ? `crashed (${worker.crash.reason}), restarts soon` : "restarting" };
    default: return worker.crash ? { kind: "bad", text: `failed: ${worker.crash.reason}` } : { kind: "idle", text: "stopped" };
  }
}

// The state of the whole fleet for the mark in the bar.
export function pulseOf(workers, lost) {
  if (lost) return { kind: "bad", text: lost };
  if (workers === null) return { kind: "idle", text: "Connecting" };
  const alive = workers.filter((worker) => worker.phase !== "exited" || worker.crash);
  const ready = alive.filter((worker) => worker.ready).length;
  const kind = alive.length === 0 ? "idle" : ready === alive.length ? "good" : ready === 0 ? "bad" : "warn";
  return { kind, text: workers.length === 0 ? "No worker" : `${ready} of ${alive.length} ready` };
}

// [{kind, worker, text}], the worst first.
export function alertsOf({ workers, gpus, lost }) {
  const found = [];
  const add = (kind, text, worker = null) => found.push({ kind, text, worker });
  if (lost) add("bad", lost);
  for (const worker of workers) {
    const name = named(worker);
    const last = worker.crash ? lastLine(worker.crash.lines) : "";
    if (worker.phase === "exited" && worker.crash) add("bad", `${name} has failed: ${worker.crash.reason}.${last ? ` Its last words: ${last}` : ""}`, worker.worker_id);
    if (worker.phase === "waiting" && worker.crash) add("bad", `${name} has crashed: ${worker.crash.reason}. It is started again.`, worker.worker_id);
    if (worker.phase === "unresponsive") add("bad", `${name} runs but does not answer.`, worker.worker_id);
    if (worker.restarts >= FLAPPING && worker.phase !== "exited" && worker.crash) add("warn", `${name} has been restarted ${worker.restarts} times.`, worker.worker_id);
    if (worker.phase !== "exited" && lacksGpu(worker, gpus)) add("warn", `${name} was to run on GPU ${worker.spec.gpu_id}, which this machine does not have: no GPU, it runs on the CPU.`, worker.worker_id);
    if (worker.rows_waiting > worker.spec.max_queue_size * 0.8) add("warn", `${name} has ${worker.rows_waiting} rows queued of at most ${worker.spec.max_queue_size}.`, worker.worker_id);
  }
  for (const gpu of gpus) {
    if (gpu.temperature >= HOT) add("warn", `GPU ${gpu.index} has ${gpu.temperature} °C.`);
    if (gpu.memory_total_mb > 0 && gpu.memory_used_mb / gpu.memory_total_mb > FULL) add("warn", `GPU ${gpu.index} has ${gpu.memory_total_mb - gpu.memory_used_mb} MiB of memory left.`);
  }
  return found.sort((a, b) => (a.kind === "bad" ? 0 : 1) - (b.kind === "bad" ? 0 : 1));
}
