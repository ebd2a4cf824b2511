// What an answer can be asked for with: fields, presets, and the request they make. Pure.

// Fields of the settings panel; numbers with their range. An empty value leaves the choice to the server.
export const NUMBERS = [
  { name: "temperature", label: "Temperature", min: 0, max: 5, step: 0.05 },
  { name: "top_p", label: "Top p", min: 0, max: 1, step: 0.05 },
  { name: "top_k", label: "Top k", hint: "0: no limit", min: 0, max: 65536, step: 1 },
  { name: "min_p", label: "Min p", min: 0, max: 1, step: 0.01 },
  { name: "presence_penalty", label: "Presence penalty", min: -5, max: 5, step: 0.1 },
  { name: "frequency_penalty", label: "Frequency penalty", min: -5, max: 5, step: 0.1 },
  { name: "penalty_decay", label: "Penalty decay", min: 0, max: 1, step: 0.001 },
  { name: "max_tokens", label: "Most tokens", min: 1, max: 65536, step: 1 },
  { name: "seed", label: "Seed", hint: "empty: random", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1 },
];

export const THINKING = [
  ["", "as the model likes"], ["fast", "off"], ["free", "on"], ["enShort", "a little"], ["en", "some"], ["enLong", "a lot"],
  ["preferChinese", "in Chinese"],
];

export const DEFAULTS = {
  system: "", temperature: "0.7", top_p: "0.7", top_k: "", min_p: "", presence_penalty: "", frequency_penalty: "", penalty_decay: "",
  max_tokens: "2048", seed: "", stop: "", schema: "", think: "", logprobs: false, sessions: true,
};

// Sampling only: a preset never touches the system prompt.
export const PRESETS = {
  Balanced: {},
  Precise: { temperature: "0.2", top_p: "0.3" },
  Creative: { temperature: "1.1", top_p: "0.8", presence_penalty: "0.5", frequency_penalty: "0.3", penalty_decay: "0.996" },
  Code: { temperature: "0.5", top_p: "0.5", top_k: "100", presence_penalty: "1", frequency_penalty: "0.1", penalty_decay: "0.99" },
  Greedy: { temperature: "0" },
};
const SAMPLING = NUMBERS.map((field) => field.name).filter((name) => name !== "max_tokens");

// `settings` with the sampling of a preset, built in or the user's own.
export function withPreset(settings, preset) {
  const plain = Object.fromEntries(SAMPLING.map((name) => [name, DEFAULTS[name]]));
  return { ...settings, ...plain, ...preset };
}

export const samplingOf = (settings) => Object.fromEntries(SAMPLING.map((name) => [name, settings[name]]));

// The name of the preset whose sampling `settings` have, or null.
export function presetOf(settings, presets) {
  const same = ([, preset]) => SAMPLING.every((name) => withPreset(settings, preset)[name] === settings[name]);
  return Object.entries(presets).find(same)?.[0] ?? null;
}

// The stop texts of one a line, where \n stands for a line end.
const stopsOf = (lines) => lines.split("\n").filter((line) => line !== "").map((line) => line.replaceAll("\\n", "\n"));

// What is wrong with a JSON schema, or null.
export function schemaProblem(text) {
  if (!text.trim()) return null;
  try {
    const schema = JSON.parse(text);
    return schema !== null && typeof schema === "object" ? null : "A schema is a JSON object.";
  } catch (problem) {
    return `This is not JSON: ${problem.message}.`;
  }
}

// The fields of a request for these settings, without prompt and model.
export function samplingFields(settings) {
  const fields = {};
  for (const { name } of NUMBERS) {
    const value = settings[name];
    if (value !== "" && value !== null && value !== undefined && Number.isFinite(Number(value))) fields[name] = Number(value);
  }
  const stops = stopsOf(settings.stop ?? "");
  if (stops.length > 0) fields.stop = stops;
  return fields;
}

// The same for chats, where answers may think, follow a schema and tell log-probabilities.
export function chatFields(settings) {
  const fields = samplingFields(settings);
  if (settings.think) fields.think_type = settings.think;
  if (settings.schema?.trim() && !schemaProblem(settings.schema)) {
    fields.response_format = { type: "json_schema", json_schema: { name: "answer", strict: true, schema: JSON.parse(settings.schema) } };
  }
  if (settings.logprobs) Object.assign(fields, { logprobs: true, top_logprobs: 5 });
  return fields;
}

// What a server session depends on besides the turns: another model, tuned state or system prompt makes it useless.
export const basisOf = (model, settings) => JSON.stringify([model, settings.system]);

// ---- models and their tuned states: /v1/models lists a state as "MODEL STATE", and no model has a space in its name

export function splitModel(id) {
  const space = id.indexOf(" ");
  return space < 0 ? { base: id, state: "" } : { base: id.slice(0, space), state: id.slice(space + 1) };
}

// The tuned states of the model `base`, in the order of the list.
export const statesOf = (models, base) => models.map((one) => splitModel(one.id)).filter((one) => one.base === base && one.state).map((one) => one.state);
