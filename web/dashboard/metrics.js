// The worker's Prometheus text, read for people. Pure.

import { bytes } from "../shared/format.js";

// [{name, labels, value}] of the text.
export function metricsOf(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = /^([a-z_]+)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!match) continue;
    const labels = Object.fromEntries([...(match[2] ?? "").matchAll(/(\w+)="((?:\\.|[^"\\])*)"/g)].map(([, name, value]) => [name, value]));
    found.push({ name: match[1], labels, value: Number(match[3]) });
  }
  return found;
}

export const sumOf = (metrics, name) => metrics.filter((one) => one.name === name).reduce((sum, one) => sum + one.value, 0);
const whole = (value) => Math.round(value).toLocaleString("en");
const share = (part, all) => (all > 0 ? `${((100 * part) / all).toFixed(1)} %` : "–");

// [[name, value in words]]; what a worker does not tell is left out.
export function summaryOf(metrics) {
  const sum = (name) => sumOf(metrics, `fulmar_${name}`);
  const has = (name) => metrics.some((one) => one.name === `fulmar_${name}`);
  const by = (name, label) => metrics.filter((one) => one.name === `fulmar_${name}` && one.value > 0).map((one) => `${one.labels[label]} ${whole(one.value)}`).join(", ");
  const fed = sum("prompt_tokens_total");
  const reused = sum("prefix_cache_tokens_reused_total");
  const rows = [
    ["Tokens generated", whole(sum("generated_tokens_total"))], ["Prompt tokens fed", whole(fed)],
    ["Prompt tokens reused", `${whole(reused)} (${share(reused, fed + reused)} of all)`],
    ["Prefix hits", by("prefix_cache_hits_total", "level") || whole(sum("prefix_cache_hits_total"))],
    ["Session hits", by("state_cache_hits_total", "level") || "0"], ["Sessions in memory", by("state_cache_entries", "level") || "0"],
    ["Slots", `${whole(sum("slots_used"))} of ${whole(sum("slots"))} taken`],
  ];
  // A GPU's share of the layers is its share of the model: slices of the same layers are equal.
  const layers = sum("gpu_layers");
  for (const { labels: { device }, value } of metrics.filter((one) => one.name === "fulmar_gpu_layers")) {
    const memory = (kind) => metrics.find((one) => one.name === "fulmar_gpu_memory_bytes" && one.labels.device === device && one.labels.kind === kind)?.value ?? 0;
    rows.push([device, `${bytes(memory("used"))} of ${bytes(memory("total"))} taken, ${share(value, layers)} of the model`]);
  }
  const [drafted, accepted] = [sum("drafted_tokens_total"), sum("accepted_draft_tokens_total")];
  if (has("drafted_tokens_total")) rows.push(["Drafts accepted", drafted > 0 ? `${whole(accepted)} of ${whole(drafted)} (${share(accepted, drafted)})` : "none drafted"]);
  const keyed = metrics.filter((one) => one.labels.key !== undefined && /tokens/.test(one.name));
  for (const one of keyed) rows.push([`${one.labels.key}: ${one.name.replace(/^fulmar_key_|_total$/g, "").replaceAll("_", " ")}`, whole(one.value)]);
  return rows;
}
