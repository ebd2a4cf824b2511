// Starts the dashboard.
import "../shared/base.css";
import "../shared/markdown.css";
import "./dashboard.css";
import { render } from "preact";
import { useState } from "preact/hooks";
import { Mark } from "../shared/icons.jsx";
import { applyTheme, setTheme, theme, THEMES } from "../shared/theme.js";
import { attempt, confirmed, Menu, Notes, Questions } from "../shared/ui.jsx";
import { pulseOf } from "./alerts.js";
import { begin, chosen, lost, restartAll, version, workers } from "./fleet.js";
import { openStart, StartDialog } from "./start.jsx";
import { WorkerPage } from "./worker.jsx";
import { Fleet } from "./workers.jsx";

async function rollingRestart() {
  const text = "One worker after the other: each finishes what it has, and the next begins when it is ready again.";
  if (await confirmed("Restart all workers?", text, "Restart all")) await restartAll();
}

function Bar() {
  const [look, setLook] = useState(theme());
  const { kind, text } = pulseOf(workers.value, lost.value);
  const themes = THEMES.map((name) => ({ label: `Theme: ${name}${name === look ? " ✓" : ""}`, run: () => { setLook(name); setTheme(name); } }));
  return (
    <header class="bar">
      <h1 class="name"><a href="#"><Mark /> <span>Fulmar <span class="soft">control {version.value}</span></span></a></h1>
      <span class="space" />
      <p class={`pulse ${kind}`} role="status">{text}</p>
      <button type="button" class="primary" aria-haspopup="dialog" onClick={openStart}>Start a worker</button>
      <Menu label="More" items={[workers.value?.some((one) => one.ready) && { label: "Restart all workers", run: () => attempt(rollingRestart) }, ...themes]} />
    </header>
  );
}

function Dashboard() {
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the workers</a>
      <Bar />
      <main id="main" tabindex="-1">{chosen.value ? <WorkerPage worker={chosen.value} key={chosen.value.worker_id} /> : <Fleet />}</main>
      <StartDialog />
      <Questions />
      <Notes />
    </>
  );
}

applyTheme();
render(<Dashboard />, document.getElementById("app"));
begin();
