// The sessions of a worker: where each lies, how long it is; moving one to another worker, deleting one.
import { useEffect, useState } from "preact/hooks";
import { count } from "../shared/format.js";
import { attempt, confirmed, Menu, notify } from "../shared/ui.jsx";
import { proxied, titleOf, workers } from "./fleet.js";

const REFRESH_MS = 5000;
const LEVELS = { device: "device", host: "memory", store: "disk" };
const MOST_SHOWN = 500;

const pathOf = (id) => `v1/sessions/${encodeURIComponent(id)}`;

// The state goes over first; only then is it deleted where it was.
async function move(session, from, to) {
  const state = await (await proxied(from.worker_id).send(`${pathOf(session.id)}/state`)).blob();
  await proxied(to.worker_id).send(`${pathOf(session.id)}/state`, { method: "PUT", body: state });
  await proxied(from.worker_id).delete(pathOf(session.id));
  notify(`${session.id} is on ${titleOf(to)}.`);
}

async function remove(session, worker) {
  if (!await confirmed("Delete this session?", `${session.id} (${count(session.tokens, "token")}) cannot be continued afterwards.`, "Delete")) return;
  await proxied(worker.worker_id).delete(pathOf(session.id));
}

export function Sessions({ worker }) {
  const [list, setList] = useState(null);
  const [problem, setProblem] = useState("");
  const read = async () => {
    try {
      setList((await proxied(worker.worker_id).get("v1/sessions")).data);
      setProblem("");
    } catch (fault) {
      setProblem(fault.message);
    }
  };
  useEffect(() => {
    read();
    const timer = setInterval(read, REFRESH_MS);
    return () => clearInterval(timer);
  }, [worker.worker_id]);
  if (problem) return <p class="problem">{problem}</p>;
  if (!list) return <p class="soft">Asking the worker</p>;
  if (list.length === 0) return <p class="soft">No session.</p>;
  const others = workers.value.filter((one) => one.ready && one.worker_id !== worker.worker_id);
  const act = (action) => () => attempt(async () => { await action(); await read(); });
  return (
    <div class="table" tabindex="0" role="region" aria-label="Sessions">
      <table class="fleet">
        <thead><tr><th scope="col">Session</th><th scope="col">Model</th><th scope="col">Kept in</th><th scope="col" class="number">Tokens</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
        <tbody>
          {list.slice(0, MOST_SHOWN).map((session) => (
            <tr key={session.id}>
              <th scope="row" data-label="Session" class="mono">{session.id}</th><td data-label="Model" class="half-cell">{session.model}</td>
              <td data-label="Kept in">{LEVELS[session.level] ?? session.level}</td><td data-label="Tokens" class="number">{session.tokens.toLocaleString("en")}</td>
              <td class="row-actions"><Menu label={`Actions for ${session.id}`} items={[
                ...others.map((other) => ({ label: `Move to ${titleOf(other)}`, run: act(() => move(session, worker, other)) })),
                { label: "Delete", bad: true, run: act(() => remove(session, worker)) },
              ]} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {list.length > MOST_SHOWN && <p class="soft">{MOST_SHOWN} of {list.length} are shown.</p>}
    </div>
  );
}
