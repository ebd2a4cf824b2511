// One worker: figures, charts, playground, log, sessions, events.
import { useEffect, useState } from "preact/hooks";
import { ago, bytes, clock, count, fileName } from "../shared/format.js";
import { Icon } from "../shared/icons.jsx";
import { Tabs } from "../shared/ui.jsx";
import { deviceOf } from "./alerts.js";
import { Charts } from "./charts.jsx";
import { gpus, proxied, seriesOf, titleOf } from "./fleet.js";
import { Log } from "./log.jsx";
import { metricsOf, summaryOf } from "./metrics.js";
import { Playground } from "./playground.jsx";
import { Sessions } from "./sessions.jsx";
import { Alerts, Badge, Events, WorkerMenu } from "./workers.jsx";

const VIEWS = [["playground", "Playground"], ["log", "Log"], ["sessions", "Sessions"], ["figures", "Figures"]];
const REFRESH_MS = 4000;

// The worker's own figures, refreshed while they are shown.
function Figures({ worker }) {
  const [rows, setRows] = useState(null);
  useEffect(() => {
    let over = false;
    const read = async () => {
      try {
        const text = await (await proxied(worker.worker_id).send("metrics")).text();
        if (!over) setRows(summaryOf(metricsOf(text)));
      } catch (problem) {
        if (!over) setRows([["Not known", problem.message]]);
      }
    };
    read();
    const timer = setInterval(read, REFRESH_MS);
    return () => { over = true; clearInterval(timer); };
  }, [worker.worker_id]);
  if (!rows) return <p class="soft">Asking the worker</p>;
  return <dl class="facts">{rows.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

function Facts({ worker }) {
  const now = Date.now() / 1000;
  const facts = [
    ["Model", fileName(worker.spec.model_path)], ["Runs on", deviceOf(worker, gpus.value)], ["Endpoint", worker.endpoint.replace("http://", "")],
    ["Process", worker.pid > 0 ? String(worker.pid) : "–"], ["Running since", `${clock(worker.started_at)}, ${ago(now - worker.started_at)}`],
    ["Restarts", String(worker.restarts)], ["Memory", bytes(worker.memory_bytes)], ["Rows", `${worker.rows_running} running, ${worker.rows_waiting} queued`],
    ["Serves", worker.models.join(", ") || "–"],
  ];
  return <dl class="facts">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

function Crash({ crash }) {
  return (
    <div class="crash" role="alert">
      <p><strong>Ended: {crash.reason}.</strong> Its last {count(crash.lines.length, "line")}:</p>
      <pre tabindex="0">{crash.lines.join("\n")}</pre>
    </div>
  );
}

export function WorkerPage({ worker }) {
  const [view, setView] = useState("playground");
  const title = titleOf(worker);
  return (
    <>
      <p class="crumbs"><a href="#"><Icon name="left" /> All workers</a></p>
      <Alerts of={worker.worker_id} />
      <section class="panel" aria-labelledby="worker-title">
        <div class="head"><h2 id="worker-title">{title}</h2><Badge worker={worker} /><span class="space" /><WorkerMenu worker={worker} /></div>
        <Facts worker={worker} />
        {worker.crash && worker.phase !== "ready" && <Crash crash={worker.crash} />}
      </section>
      <section class="panel" aria-label="Worker views">
        <div class="head"><Tabs label="Worker views" tabs={VIEWS} chosen={view} onChoose={setView} panel="worker-view" /></div>
        <div role="tabpanel" id="worker-view" aria-labelledby={`tab-${view}`}>
          {view === "playground" && <Playground key={worker.worker_id} worker={worker} />}
          {view === "log" && <Log key={worker.worker_id} worker={worker} />}
          {view === "sessions" && <Sessions key={worker.worker_id} worker={worker} />}
          {view === "figures" && <Figures worker={worker} />}
        </div>
      </section>
      <Charts members={[[seriesOf(worker), title]]} title="Load" />
      <Events of={worker.worker_id} />
    </>
  );
}
