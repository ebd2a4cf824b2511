// Numbers, times and sizes as people read them. Pure.

export function bytes(count) {
  if (!count) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const step = Math.min(units.length - 1, Math.floor(Math.log2(count) / 10));
  const value = count / 2 ** (10 * step);
  return `${value < 10 && step > 0 ? value.toFixed(1) : Math.round(value)} ${units[step]}`;
}

export const rate = (value) => (value >= 100 || value === 0 ? Math.round(value).toString() : value.toFixed(1));

export function milliseconds(value) {
  if (value < 1000) return `${Math.round(value)} ms`;
  return value < 60_000 ? `${(value / 1000).toFixed(1)} s` : `${Math.floor(value / 60_000)} min ${Math.round((value % 60_000) / 1000)} s`;
}

export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

export function ago(seconds) {
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

export const clock = (unixSeconds) => new Date(unixSeconds * 1000).toLocaleTimeString("en-GB");
export const fileName = (path) => path.split("/").pop();
// What a server calls the model in that file, unless it is told otherwise.
export const modelName = (path) => fileName(path).replace(/\.(pth|safetensors|st|gguf)$/, "");

// The figures of an answer in one line; `figures` as LiveAnswer gives them.
export function figuresLine({ tokens, first, rate: speed, fed, reused, drafted }) {
  const parts = [];
  if (speed) parts.push(`${rate(speed)} tokens/s`);
  if (drafted?.of > 0) parts.push(`${Math.round((100 * drafted.accepted) / drafted.of)} % of ${count(drafted.of, "draft")} accepted`);
  parts.push(count(tokens, "token"));
  if (first !== null && first !== undefined) parts.push(`first after ${milliseconds(first)}`);
  if (fed !== null && fed !== undefined) {
    parts.push(reused > 0 ? `fed ${fed.toLocaleString("en")}, reused ${reused.toLocaleString("en")}` : `fed ${fed.toLocaleString("en")}`);
  }
  return parts.join(" · ");
}
