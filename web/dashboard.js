// The dashboard: shows what the control plane says, sends what its user asks. No dependencies, no build step.

const REFRESH_MS = 2000;
const HISTORY_SECONDS = 3600;

const at = (id) => document.getElementById(id);
const view = {
  pulse: at("pulse"), gpus: at("gpus"), rows: at("worker-rows"), table: at("workers"), empty: at("no-workers"),
  legend: at("legend"), detail: at("detail"), detailTitle: at("detail-title"), crash: at("crash"),
  start: at("start"), startForm: at("start-form"), startProblem: at("start-problem"), picker: at("picker"),
  play: at("play"), answer: at("answer"), figures: at("play-figures"), stopStream: at("stop-stream"), send: at("send"),
  log: at("log"), follow: at("follow"), sessions: at("session-rows"), noSessions: at("no-sessions"),
};

let workers = [];
let chosen = null;      // id of the worker in the detail panel
let history = new Map(); // worker id -> { time: [], tokens_per_second: [], ... }
let streaming = null;   // AbortController of the answer under way

// ---- talking to the control plane

async function problemOf(response) {
  const text = await response.text();
  try {
    const { error, detail } = JSON.parse(text);
    if (Array.isArray(detail)) return detail.map((item) => item.msg).join("; ");
    return error?.message ?? error ?? detail ?? text;
  } catch {
    return text || `${response.status} ${response.statusText}`;
  }
}

async function api(path, options = {}) {
  const response = await fetch(path, options);
  if (!response.ok) throw new Error(await problemOf(response));
  return response.json();
}

const post = (path, body) =>
  api(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}) });
const proxied = (id, path) => `/api/workers/${id}/proxy${path}`;

function say(text, bad = false) {
  view.pulse.textContent = text;
  view.pulse.classList.toggle("bad", bad);
}

// ---- small helpers

function element(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

const fileName = (path) => path.split("/").pop();

function bytes(count) {
  if (!count) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const step = Math.min(units.length - 1, Math.floor(Math.log2(count) / 10));
  const value = count / 2 ** (10 * step);
  return `${value < 10 && step > 0 ? value.toFixed(1) : Math.round(value)} ${units[step]}`;
}

function rate(value) {
  return value >= 100 || value === 0 ? Math.round(value).toString() : value.toFixed(1);
}

function seconds(value) {
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(value < 10 ? 1 : 0)} s`;
}

// ---- workers

const PHASES = {
  starting: "loading", ready: "ready", unresponsive: "no answer", draining: "draining", stopping: "stopping",
  waiting: "restarting", exited: "stopped",
};

function phaseOf(worker) {
  if (worker.phase === "exited" && worker.crash) return ["failed", `failed: ${worker.crash.reason}`];
  return [worker.phase, PHASES[worker.phase] ?? worker.phase];
}

function cell(label, content, className = "") {
  const node = element("td", { className }, content);
  if (label) node.dataset.label = label;
  return node;
}

function workerRow(worker) {
  const alive = worker.status === "running" || worker.phase === "waiting";
  const [kind, text] = phaseOf(worker);
  const title = worker.name || worker.worker_id;
  const choose = element("button", { type: "button", className: "link mono", textContent: title });
  choose.dataset.choose = worker.worker_id;
  choose.setAttribute("aria-pressed", String(worker.worker_id === chosen));
  const actions = element("td", { className: "row-actions" });
  if (alive) {
    const stop = element("button", { type: "button", className: "quiet framed", textContent: "Stop" });
    stop.dataset.stop = worker.worker_id;
    stop.disabled = worker.phase === "stopping";
    stop.setAttribute("aria-label", `Stop ${title}`);
    actions.append(stop);
  }
  const row = element("tr", { className: worker.worker_id === chosen ? "chosen" : "" },
    cell("Worker", choose),
    cell("Status", element("span", { className: `badge ${kind}`, textContent: text })),
    cell("Model", fileName(worker.spec.model_path), "model-cell"),
    cell("GPU", worker.spec.gpu_id ?? "all"),
    cell("Endpoint", worker.endpoint.replace("http://", ""), "mono"),
    cell("Tokens/s", rate(worker.tokens_per_second), "number"),
    cell("Running", String(worker.rows_running), "number"),
    cell("Queued", String(worker.rows_waiting), "number"),
    cell("Memory", bytes(worker.memory_bytes), "number"),
    actions);
  row.dataset.worker = worker.worker_id;
  row.children[2].title = worker.spec.model_path;
  return row;
}

// Rows are written anew only when something in them changed, and the focus stays on the same button.
function showWorkers() {
  const focused = document.activeElement?.dataset ?? {};
  const rows = workers.map(workerRow);
  const same = rows.length === view.rows.children.length &&
    rows.every((row, i) => row.outerHTML === view.rows.children[i].outerHTML);
  if (!same) {
    view.rows.replaceChildren(...rows);
    for (const key of ["choose", "stop"]) {
      if (focused[key]) view.rows.querySelector(`[data-${key}="${focused[key]}"]`)?.focus();
    }
  }
  view.table.hidden = workers.length === 0;
  view.empty.hidden = workers.length > 0;
  showDetail();
}

function showDetail() {
  const worker = workers.find((one) => one.worker_id === chosen);
  view.detail.hidden = !worker;
  if (!worker) return;
  view.detailTitle.textContent = `${fileName(worker.spec.model_path)} on ${worker.endpoint.replace("http://", "")}`;
  view.crash.hidden = !worker.crash;
  if (worker.crash) {
    const last = worker.crash.lines.filter((line) => line.trim()).slice(-1);
    const text = [`Ended: ${worker.crash.reason}.`, ...last].join(" ");
    if (view.crash.textContent !== text) view.crash.textContent = text;
  }
  view.send.disabled = streaming !== null || !worker.ready;
}

function choose(id) {
  if (chosen !== id) {
    streaming?.abort();
    view.answer.textContent = view.figures.textContent = view.log.textContent = "";
  }
  chosen = id;
  showWorkers();
  refreshTab();
}

async function stop(id) {
  const button = view.rows.querySelector(`[data-stop="${id}"]`);
  if (button) button.disabled = true;
  try {
    await post(`/api/workers/${id}/stop`);
    await refresh();
  } catch (problem) {
    say(problem.message, true);
  }
}

// ---- GPUs

function showGpus(system) {
  view.gpus.textContent = system.gpus
    .map((gpu) => [
      `GPU ${gpu.index} ${gpu.name}: ${bytes(gpu.memory_used_mb * 2 ** 20)} of ${bytes(gpu.memory_total_mb * 2 ** 20)}`,
      gpu.utilization === undefined ? "" : `${gpu.utilization} %`,
      gpu.temperature === undefined ? "" : `${gpu.temperature} °C`,
    ].filter(Boolean).join(", "))
    .join(" · ") || "no NVIDIA GPU";
}

// ---- charts

const CHARTS = {
  tokens: { unit: rate, lines: [["tokens_per_second", ""]] },
  ttft: { unit: seconds, lines: [["ttft_p50", ""], ["ttft_p95", "dashed"]] },
  queue: { unit: (value) => Math.round(value).toString(), lines: [["rows_running", ""], ["rows_waiting", "dashed"]] },
  memory: { unit: bytes, lines: [["memory_bytes", ""]], round: binaryCeiling },
};

// The next "round" number: 1, 2 or 5 times a power of ten.
function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= value);
}

// The same in KiB, MiB and so on.
function binaryCeiling(value) {
  const unit = 1024 ** Math.floor(Math.log(Math.max(1, value)) / Math.log(1024));
  return unit * ceiling(value / unit);
}

function svg(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// Samples more than this far apart are not joined: the worker was away, or no answer began.
const MOST_GAP_SECONDS = 30;

// The runs of joined samples, as lists of points.
function runsOf(times, values, x, y) {
  const runs = [];
  let last = -Infinity;
  times.forEach((time, i) => {
    if (values[i] === null || values[i] === undefined) return;
    if (time - last > MOST_GAP_SECONDS) runs.push([]);
    runs.at(-1).push([x(time), y(values[i])]);
    last = time;
  });
  return runs;
}

function drawRuns(runs, className) {
  const lines = runs.map((points) => "M" + points.map((point) => point.map((at) => at.toFixed(1)).join(" ")).join("L"));
  const dots = runs.filter((points) => points.length === 1)
    .map(([[x, y]]) => svg("circle", { class: className, cx: x, cy: y, r: 2.5 }));
  return [svg("path", { class: className, d: lines.join("") }), ...dots];
}

function drawChart(figure, { unit, lines, round = ceiling }) {
  const canvas = figure.querySelector("svg");
  const { width, height } = canvas.getBoundingClientRect();
  if (width === 0) return;
  const [left, right, top, bottom] = [0, width, 14, height - 16];
  const now = Date.now() / 1000;
  const all = [...history.values()].flatMap((series) => lines.flatMap(([name]) => series[name]));
  const most = round(Math.max(0, ...all.filter((value) => value !== null)));
  const oldest = Math.min(now - 60, ...[...history.values()].map((series) => series.time[0] ?? now));
  const span = Math.min(HISTORY_SECONDS, now - oldest);
  const x = (time) => left + ((time - (now - span)) / span) * (right - left);
  const y = (value) => bottom - (value / most) * (bottom - top);
  const minutes = Math.max(1, Math.round(span / 60));
  const shapes = [
    svg("line", { class: "rule", x1: left, x2: right, y1: bottom, y2: bottom }),
    svg("line", { class: "rule", x1: left, x2: right, y1: top, y2: top }),
    svg("text", { x: left, y: top - 4 }, unit(most)),
    svg("text", { x: left, y: height - 3 }, `${minutes} min ago`),
    svg("text", { x: right, y: height - 3, "text-anchor": "end" }, "now"),
  ];
  const latest = [];
  [...history.entries()].forEach(([id, series], i) => {
    for (const [name, style] of lines) {
      shapes.push(...drawRuns(runsOf(series.time, series[name], x, y), `series-${(i % 6) + 1} ${style}`));
    }
    const value = series[lines[0][0]].findLast((one) => one !== null);
    if (value !== undefined) latest.push(`${titleOf(id)} ${unit(value)}`);
  });
  canvas.setAttribute("viewBox", `0 0 ${width} ${height}`);
  canvas.setAttribute("aria-label", `${figure.querySelector("figcaption").textContent}: ${latest.join(", ") || "no data"}`);
  canvas.replaceChildren(...shapes);
}

function titleOf(id) {
  const worker = workers.find((one) => one.worker_id === id);
  return worker ? worker.name || `${fileName(worker.spec.model_path)} ${id.slice(-4)}` : id;
}

function drawCharts() {
  for (const figure of document.querySelectorAll(".chart")) drawChart(figure, CHARTS[figure.dataset.figure]);
  view.legend.replaceChildren(...[...history.keys()].map((id, i) =>
    element("li", { className: `series-${(i % 6) + 1}`, textContent: titleOf(id) })));
}

async function refreshHistory() {
  const newest = Math.max(0, ...[...history.values()].map((series) => series.time.at(-1) ?? 0));
  const fresh = (await api(`/api/history?since=${newest}`)).workers;
  const oldest = Date.now() / 1000 - HISTORY_SECONDS;
  for (const [id, series] of Object.entries(fresh)) {
    const known = history.get(id);
    if (!known) {
      history.set(id, series);
      continue;
    }
    for (const name of Object.keys(series)) known[name].push(...series[name]);
  }
  for (const [id, series] of history) {
    const first = series.time.findIndex((time) => time >= oldest);
    if (first < 0) history.delete(id);
    else if (first > 0) for (const name of Object.keys(series)) series[name].splice(0, first);
  }
  drawCharts();
}

// ---- refreshing

async function refresh() {
  try {
    const [list, system] = await Promise.all([api("/api/workers"), api("/api/system")]);
    workers = list;
    if (!workers.some((worker) => worker.worker_id === chosen)) chosen = workers[0]?.worker_id ?? null;
    showGpus(system);
    showWorkers();
    await Promise.all([refreshHistory(), refreshTab()]);
    const ready = workers.filter((worker) => worker.ready).length;
    say(`${ready} of ${workers.length} ready`);
  } catch (problem) {
    say(problem instanceof TypeError ? "The control plane does not answer" : problem.message, true);
  }
}

async function keepRefreshing() {
  if (!document.hidden) await refresh();
  setTimeout(keepRefreshing, REFRESH_MS);
}

// ---- tabs

const TABS = ["playground", "log", "sessions"];
let tab = "playground";

function selectTab(name, focus = false) {
  tab = name;
  for (const one of TABS) {
    const button = at(`tab-${one}`);
    button.setAttribute("aria-selected", String(one === name));
    button.tabIndex = one === name ? 0 : -1;
    at(`view-${one}`).hidden = one !== name;
    if (one === name && focus) button.focus();
  }
  refreshTab();
}

async function refreshTab() {
  if (!chosen) return;
  if (tab === "log") await refreshLog();
  if (tab === "sessions") await refreshSessions();
}

async function refreshLog() {
  const { lines } = await api(`/api/workers/${chosen}/logs?tail=200`);
  const text = lines.join("\n");
  if (view.log.textContent !== text) view.log.textContent = text;
  if (view.follow.checked) view.log.scrollTop = view.log.scrollHeight;
}

// ---- sessions

async function refreshSessions() {
  const worker = workers.find((one) => one.worker_id === chosen);
  let sessions = [];
  view.noSessions.textContent = "No sessions.";
  if (worker?.ready) {
    try {
      sessions = (await post(proxied(chosen, "/state/status"))).sessions ?? [];
    } catch (problem) {
      view.noSessions.textContent = `The worker does not list its sessions: ${problem.message}`;
    }
  }
  view.noSessions.hidden = sessions.length > 0;
  view.sessions.closest("table").hidden = sessions.length === 0;
  view.sessions.replaceChildren(...sessions.map((session) => {
    const drop = element("button", { type: "button", className: "quiet framed", textContent: "Delete" });
    drop.dataset.session = session.session_id;
    drop.setAttribute("aria-label", `Delete session ${session.session_id}`);
    return element("tr", {}, element("td", { className: "mono" }, session.session_id), element("td", {}, session.cache_level),
      element("td", {}, session.last_updated), element("td", { className: "row-actions" }, drop));
  }));
}

async function deleteSession(id) {
  try {
    await post(proxied(chosen, "/state/delete"), { session_id: id });
  } catch (problem) {
    say(problem.message, true);
  }
  await refreshSessions();
}

// ---- the playground

// Yields the data of each event of a streamed response.
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      if (part.startsWith("data: ")) yield part.slice(6);
    }
  }
}

function playRequest() {
  const fields = view.play.elements;
  const chat = fields.mode.value === "chat";
  const body = { stream: true, stream_options: { include_usage: true } };
  for (const name of ["max_tokens", "temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty"]) {
    if (fields[name].value !== "") body[name] = Number(fields[name].value);
  }
  if (chat) body.messages = [{ role: "user", content: fields.prompt.value }];
  else body.prompt = fields.prompt.value;
  return { path: proxied(chosen, chat ? "/v1/chat/completions" : "/v1/completions"), body };
}

function showPace(clock, tokens, note = "") {
  const parts = [];
  if (clock.first) {
    const span = (clock.last - clock.first) / 1000;
    if (tokens > 1 && span > 0) parts.push(`${rate((tokens - 1) / span)} tokens/s`);
    parts.push(`first token ${Math.round(clock.first - clock.start)} ms`, `${tokens} tokens`);
  }
  if (note) parts.push(note);
  view.figures.textContent = parts.join(" · ");
}

// Shows text once per frame however fast it comes: a small model brings thousands of events a second.
function answerWriter(clock) {
  let waiting = [];
  let tokens = 0;
  let frame = 0;
  const flush = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    for (const [kind, text] of waiting) {
      const last = view.answer.lastChild;
      if (last?.className === kind) last.append(text);
      else view.answer.append(element("span", { className: kind, textContent: text }));
    }
    waiting = [];
    view.answer.scrollTop = view.answer.scrollHeight;
    showPace(clock, tokens);
  };
  return {
    flush,
    set tokens(count) { tokens = count; },
    write(kind, text) {
      clock.last = performance.now();
      clock.first ??= clock.last;
      tokens += 1;
      const last = waiting.at(-1);
      if (last?.[0] === kind) last[1] += text;
      else waiting.push([kind, text]);
      frame ||= requestAnimationFrame(flush);
    },
  };
}

async function readAnswer(response, clock) {
  const writer = answerWriter(clock);
  try {
    for await (const data of eventsOf(response)) {
      if (data === "[DONE]") break;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message ?? event.error);
      if (event.usage) writer.tokens = event.usage.completion_tokens;
      const choice = event.choices?.[0];
      if (choice?.delta?.reasoning_content) writer.write("thought", choice.delta.reasoning_content);
      const text = choice?.delta?.content ?? choice?.text;
      if (text) writer.write("text", text);
    }
  } finally {
    writer.flush();
  }
}

async function play() {
  const { path, body } = playRequest();
  streaming = new AbortController();
  view.answer.textContent = "";
  view.answer.classList.remove("failed");
  view.send.disabled = true;
  view.stopStream.hidden = false;
  const clock = { start: performance.now() };
  try {
    const response = await fetch(path, {
      method: "POST", headers: { "Content-Type": "application/json" }, signal: streaming.signal, body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(await problemOf(response));
    await readAnswer(response, clock);
  } catch (problem) {
    if (problem.name === "AbortError") {
      view.figures.textContent = [view.figures.textContent, "stopped"].filter(Boolean).join(" · ");
    } else {
      view.answer.classList.add("failed");
      view.answer.append(problem instanceof TypeError ? "The connection broke off." : problem.message);
    }
  } finally {
    streaming = null;
    view.stopStream.hidden = true;
    showDetail();
  }
}

// ---- the start form

function showProblems(problems) {
  for (const place of view.startForm.querySelectorAll(".field .problem")) place.textContent = "";
  view.startProblem.textContent = "";
  for (const { field, text } of problems) {
    const place = at(`problem-${field}`);
    if (place) place.textContent = text;
    else view.startProblem.textContent = text;
    view.startForm.elements[field]?.setAttribute("aria-invalid", "true");
  }
  const first = problems.map(({ field }) => view.startForm.elements[field]).find(Boolean);
  first?.focus();
}

function localProblems() {
  return [...view.startForm.elements]
    .filter((field) => field.name && !field.validity.valid)
    .map((field) => ({ field: field.name, text: field.validationMessage }));
}

function startRequest() {
  const body = {};
  for (const field of view.startForm.elements) {
    if (!field.name || field.value === "") continue;
    body[field.name] = field.type === "number" ? Number(field.value) : field.value.trim();
  }
  return body;
}

async function submitStart() {
  for (const field of view.startForm.elements) field.removeAttribute("aria-invalid");
  const wrong = localProblems();
  showProblems(wrong);
  if (wrong.length > 0) return;
  const response = await fetch("/api/workers/start", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(startRequest()),
  });
  if (response.ok) {
    chosen = (await response.json()).worker_id;
    view.start.close();
    await refresh();
    return;
  }
  const { detail } = await response.json();
  showProblems(Array.isArray(detail)
    ? detail.map((item) => ({ field: item.loc.at(-1), text: item.msg }))
    : [{ field: "", text: detail }]);
}

async function openStart() {
  showProblems([]);
  view.start.showModal();
  view.startForm.elements.model_path.focus();
  try {
    const { confined, files } = await api("/api/models");
    at("picker-field").hidden = !confined;
    view.picker.replaceChildren(new Option(files.length ? "Choose a file" : "No model file there", ""),
      ...files.map((file) => new Option(`${file.path} (${bytes(file.bytes)})`, file.path)));
  } catch (problem) {
    view.startProblem.textContent = problem.message;
  }
}

// ---- events

for (const id of ["open-start", "open-start-too"]) at(id).addEventListener("click", openStart);
at("cancel-start").addEventListener("click", () => view.start.close());
view.start.addEventListener("click", (event) => { if (event.target === view.start) view.start.close(); });
view.startForm.addEventListener("submit", (event) => {
  event.preventDefault();
  submitStart().catch((problem) => { view.startProblem.textContent = problem.message; });
});
view.startForm.addEventListener("input", (event) => {
  if (event.target === view.picker && view.picker.value) view.startForm.elements.model_path.value = view.picker.value;
  const place = at(`problem-${event.target === view.picker ? "model_path" : event.target.name}`);
  if (place) place.textContent = "";
});
view.rows.addEventListener("click", (event) => {
  const { choose: wanted, stop: ending } = event.target.dataset;
  if (wanted) choose(wanted);
  if (ending) stop(ending);
});
view.sessions.addEventListener("click", (event) => {
  if (event.target.dataset.session) deleteSession(event.target.dataset.session);
});
for (const name of TABS) at(`tab-${name}`).addEventListener("click", () => selectTab(name));
document.querySelector(".tabs").addEventListener("keydown", (event) => {
  const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (move) selectTab(TABS[(TABS.indexOf(tab) + move + TABS.length) % TABS.length], true);
});
view.play.addEventListener("submit", (event) => { event.preventDefault(); if (!streaming) play(); });
view.play.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.target.id !== "prompt") return;
  event.preventDefault();
  if (!streaming && !view.send.disabled) view.play.requestSubmit();
});
view.play.addEventListener("change", () => {
  const chat = view.play.elements.mode.value === "chat";
  at("prompt-label").textContent = chat ? "Message" : "Text to continue";
});
view.stopStream.addEventListener("click", () => streaming?.abort());
document.addEventListener("keydown", (event) => { if (event.key === "Escape") streaming?.abort(); });
view.log.addEventListener("scroll", () => {
  const distance = view.log.scrollHeight - view.log.scrollTop - view.log.clientHeight;
  view.follow.checked = distance < 8;
});
new ResizeObserver(drawCharts).observe(document.querySelector(".charts"));
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });

keepRefreshing();
