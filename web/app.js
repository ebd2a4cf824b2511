// The chat page: talks to the server it came from through the OpenAI routes. No dependencies, no build step.

const EXAMPLES = ["What is 123 + 456?", "Reverse: fulmar", "How do I start the server?", "English: cat → Chinese"];
const DEFAULTS = {
  system: "", temperature: 0.3, top_p: 0.8, top_k: 0, max_tokens: 1024,
  presence_penalty: 0, frequency_penalty: 0, seed: "", password: "", history: true, model: "",
};
const STORE = "fulmar.settings";
const SHORTEST_RATE = 0.05;  // seconds of arriving text that a rate can be told from
const NUMBERS = ["temperature", "top_p", "top_k", "max_tokens", "presence_penalty", "frequency_penalty", "seed"];

const at = (id) => document.getElementById(id);
const view = {
  scroll: at("scroll"), turns: at("turns"), welcome: at("welcome"), form: at("form"), prompt: at("prompt"),
  send: at("send"), status: at("status"), model: at("model"), newChat: at("new-chat"), settings: at("settings"),
  settingsForm: at("settings-form"), template: at("turn-template"),
};

const settings = loadSettings();
let messages = [];   // the conversation as the API takes it
let running = null;  // AbortController of the answer under way

// ---- settings

function loadSettings() {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(STORE) ?? "{}") };
  } catch {
    return { ...DEFAULTS };
  }
}

function saveSettings() {
  try {
    localStorage.setItem(STORE, JSON.stringify(settings));
  } catch {
    // Private windows may refuse; the settings then last as long as the page.
  }
}

function showSettings() {
  for (const field of view.settingsForm.elements) {
    if (!(field.name in DEFAULTS)) continue;
    if (field.type === "checkbox") field.checked = settings[field.name];
    else field.value = settings[field.name];
  }
}

function takeSettings() {
  for (const field of view.settingsForm.elements) {
    if (!(field.name in DEFAULTS)) continue;
    if (field.type === "checkbox") settings[field.name] = field.checked;
    else if (field.validity.valid) settings[field.name] = field.value;
  }
  saveSettings();
}

function headers() {
  const fields = { "Content-Type": "application/json" };
  if (settings.password) fields.Authorization = `Bearer ${settings.password}`;
  return fields;
}

function requestBody(turns) {
  const body = { messages: turns, stream: true, stream_options: { include_usage: true } };
  if (settings.model) body.model = settings.model;
  for (const name of NUMBERS) {
    if (settings[name] !== "" && settings[name] !== null) body[name] = Number(settings[name]);
  }
  return body;
}

// ---- server-sent events

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

async function errorOf(response) {
  const text = await response.text();
  try {
    const { error, detail } = JSON.parse(text);
    return error?.message ?? error ?? detail ?? text;
  } catch {
    return text || `${response.status} ${response.statusText}`;
  }
}

// ---- the conversation

function addTurn(role, text = "") {
  const turn = view.template.content.firstElementChild.cloneNode(true);
  turn.classList.add(role);
  turn.querySelector(".who").textContent = role === "user" ? "You" : "Fulmar";
  turn.querySelector(":scope > .text").textContent = text;
  view.turns.append(turn);
  view.welcome.hidden = true;
  view.newChat.disabled = false;
  return turn;
}

// Keeps the newest line in sight unless the reader has scrolled away.
function follow(change) {
  const near = view.scroll.scrollHeight - view.scroll.scrollTop - view.scroll.clientHeight < 80;
  change();
  if (near) view.scroll.scrollTop = view.scroll.scrollHeight;
}

function figures(clock, tokens) {
  if (!clock.first) return "";
  const parts = [`first token ${Math.round(clock.first - clock.start)} ms`];
  const seconds = ((clock.end ?? performance.now()) - clock.first) / 1000;
  // An answer that came in one burst says how the network delivered, not how fast the model is.
  if (tokens > 1 && seconds >= SHORTEST_RATE) parts.unshift(`${((tokens - 1) / seconds).toFixed(1)} tokens/s`);
  parts.push(`${tokens} ${tokens === 1 ? "token" : "tokens"}`);
  return parts.join(" · ");
}

// Reads one streamed answer into `turn`; returns its text.
async function readAnswer(response, turn, clock) {
  const place = turn.querySelector(":scope > .text");
  const thinking = turn.querySelector(".thinking");
  let text = "";
  let tokens = 0;
  for await (const data of eventsOf(response)) {
    if (data === "[DONE]") break;
    const event = JSON.parse(data);
    if (event.error) throw new Error(event.error.message ?? event.error);
    if (event.usage) tokens = event.usage.completion_tokens;
    const delta = event.choices[0]?.delta ?? {};
    if (!delta.content && !delta.reasoning_content) continue;
    clock.first ??= performance.now();
    clock.end = performance.now();
    tokens += 1;
    turn.classList.replace("waiting", "streaming");
    follow(() => {
      if (delta.reasoning_content) {
        thinking.hidden = false;
        thinking.querySelector(".text").append(delta.reasoning_content);
      }
      if (delta.content) {
        text += delta.content;
        place.append(delta.content);
      }
      turn.querySelector(".figures").textContent = figures(clock, tokens);
    });
  }
  turn.querySelector(".figures").textContent = figures(clock, tokens);
  return text;
}

async function ask(question) {
  addTurn("user", question);
  const turn = addTurn("assistant");
  turn.classList.add("waiting");
  view.scroll.scrollTop = view.scroll.scrollHeight;
  const conversation = messages; // a new chat may begin while the answer runs
  conversation.push({ role: "user", content: question });
  const earlier = settings.history ? conversation : conversation.slice(-1);
  const system = settings.system ? [{ role: "system", content: settings.system }] : [];
  running = new AbortController();
  setBusy(true);
  const clock = { start: performance.now() };
  try {
    const response = await fetch("/v1/chat/completions", {
      method: "POST", headers: headers(), signal: running.signal, body: JSON.stringify(requestBody([...system, ...earlier])),
    });
    if (!response.ok) throw new Error(await errorOf(response));
    const text = await readAnswer(response, turn, clock);
    conversation.push({ role: "assistant", content: text });
  } catch (problem) {
    settle(turn, problem, conversation);
  } finally {
    turn.classList.remove("waiting", "streaming");
    running = null;
    setBusy(false);
  }
}

// An answer that did not come to its end: what there is stays, and counts as said when it was stopped on purpose.
function settle(turn, problem, conversation) {
  const text = turn.querySelector(":scope > .text").textContent;
  const note = turn.querySelector(".figures");
  if (problem.name === "AbortError") {
    conversation.push({ role: "assistant", content: text });
    note.textContent = [note.textContent, "stopped"].filter(Boolean).join(" · ");
    return;
  }
  conversation.pop();
  turn.classList.add("failed");
  note.textContent = problem instanceof TypeError ? "The server does not answer." : problem.message;
  say("The answer failed. You can send the message again.", true);
}

function setBusy(busy) {
  view.form.classList.toggle("busy", busy);
  view.send.setAttribute("aria-label", busy ? "Stop" : "Send");
  view.send.title = busy ? "Stop (Esc)" : "Send (Enter)";
  if (!busy) view.prompt.focus({ preventScroll: true });
  else say("");
}

function say(text, bad = false) {
  view.status.textContent = text;
  view.status.classList.toggle("bad", bad);
}

function newChat() {
  running?.abort();
  messages = [];
  view.turns.replaceChildren();
  view.welcome.hidden = false;
  view.newChat.disabled = true;
  say("");
  view.prompt.focus();
}

// ---- the composer

function fitPrompt() {
  view.prompt.style.height = "auto";
  view.prompt.style.height = `${view.prompt.scrollHeight}px`;
}

function submit() {
  if (running) return running.abort();
  const question = view.prompt.value.trim();
  if (!question) return view.prompt.focus();
  view.prompt.value = "";
  fitPrompt();
  ask(question);
}

async function loadModels() {
  try {
    const response = await fetch("/v1/models", { headers: headers() });
    if (!response.ok) throw new Error(await errorOf(response));
    const names = (await response.json()).data.map((model) => model.id);
    if (names.length === 0) return say("No model is loaded yet.", true);
    view.model.replaceChildren(...names.map((name) => new Option(name, name)));
    view.model.disabled = names.length < 2;
    if (names.includes(settings.model)) view.model.value = settings.model;
    else settings.model = "";
    say("");
  } catch (problem) {
    say(problem instanceof TypeError ? "The server does not answer." : problem.message, true);
  }
}

// ---- events

for (const example of EXAMPLES) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = example;
  button.addEventListener("click", () => { if (!running) ask(example); });
  const item = document.createElement("li");
  item.append(button);
  at("examples").append(item);
}

view.form.addEventListener("submit", (event) => { event.preventDefault(); submit(); });
view.prompt.addEventListener("input", fitPrompt);
view.prompt.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!running) submit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && running && !view.settings.open) running.abort();
});
view.newChat.addEventListener("click", newChat);
view.model.addEventListener("change", () => { settings.model = view.model.value; saveSettings(); });
at("open-settings").addEventListener("click", () => { showSettings(); view.settings.showModal(); });
at("reset-settings").addEventListener("click", () => {
  Object.assign(settings, DEFAULTS, { model: settings.model });
  saveSettings();
  showSettings();
});
view.settingsForm.addEventListener("input", takeSettings);
view.settings.addEventListener("close", loadModels);
view.settings.addEventListener("click", (event) => { if (event.target === view.settings) view.settings.close(); });

loadModels();
view.prompt.focus();
