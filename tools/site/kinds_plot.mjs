// Size, speed and cost of the kinds of weights side by side, from the tables of docs/quantisation.md: Markdown to a
// picture that stands alone. Pure.
import { cellsOf, escaped, numbersOf } from "./plot.mjs";

const ERROR = "error of ";

// The tables of a document, as text.
const tablesOf = (markdown) => markdown.match(/(?:^\|.*\n?)+/gm) ?? [];

// {head, rows: Map of the first cell, without its quotes, to the others by column}
function tableWith(markdown, column) {
  const found = tablesOf(markdown).map(cellsOf).find(([head]) => head.some((name) => name.startsWith(column)));
  if (!found) throw new Error(`no table has a column '${column}'`);
  const [head, ...rows] = found;
  return { head, rows: new Map(rows.map((cells) => [cells[0].replaceAll("`", ""), Object.fromEntries(head.map((name, i) => [name, cells[i]]))])) };
}

// {models, kinds: [{name, gigabytes, speed, errors: one per model}]}, in the order of the table that says for whom each
// is; null where nothing was measured.
export function kindsOf(markdown) {
  const sizes = tableWith(markdown, "for whom"), speeds = tableWith(markdown, "decode 1"), costs = tableWith(markdown, ERROR);
  const columns = costs.head.filter((name) => name.startsWith(ERROR));
  const number = (cell) => numbersOf(cell ?? "")[0] ?? null;
  const kinds = [...sizes.rows].map(([name, row]) => ({
    name, gigabytes: number(row["7.2B"]), speed: number(speeds.rows.get(name)?.["decode 1"]),
    errors: columns.map((column) => number(costs.rows.get(name)?.[column])),
  }));
  return { models: columns.map((column) => column.slice(ERROR.length)), kinds };
}

const [ROW, TOP, BOTTOM, LABEL, PANEL, GAP] = [22, 64, 34, 86, 210, 26];
const COLOURS = ["#2563eb", "#dc2626", "#059669"];
const leftOf = (panel) => LABEL + panel * (PANEL + GAP);
const round = (value) => Math.round(value * 10) / 10;
const words = (x, y, text, { size = 10, anchor = "start", colour = "#374151" } = {}) =>
  `<text x="${round(x)}" y="${round(y)}" font-size="${size}" text-anchor="${anchor}" fill="${colour}">${escaped(text)}</text>`;

// One bar a row; a row without a value says so.
function bars(panel, title, values, unit) {
  const most = Math.max(...values.filter((value) => value !== null));
  return words(leftOf(panel), TOP - 30, title, { size: 12 }) + values.map((value, row) => {
    const y = TOP + row * ROW;
    if (value === null) return words(leftOf(panel), y + 13, "not measured", { colour: "#9ca3af" });
    const width = round(((PANEL - 60) * value) / most);
    return `<rect x="${leftOf(panel)}" y="${y + 3}" width="${width}" height="13" fill="#93c5fd"/>`
      + words(leftOf(panel) + width + 4, y + 13, `${value} ${unit}`);
  }).join("");
}

// The errors of each model as dots over one logarithmic axis.
function dots(panel, title, { models, kinds }) {
  const all = kinds.flatMap((kind) => kind.errors).filter((error) => error > 0);
  const [low, high] = [Math.floor(Math.log10(Math.min(...all))), Math.ceil(Math.log10(Math.max(...all)))];
  const toX = (error) => round(leftOf(panel) + (PANEL * (Math.log10(error) - low)) / (high - low || 1));
  const bottom = TOP + kinds.length * ROW;
  const grid = Array.from({ length: high - low + 1 }, (_, i) => Number((10 ** (low + i)).toPrecision(1))).map((tick) =>
    `<path d="M${toX(tick)} ${TOP}V${bottom}" stroke="#e5e7eb"/>${words(toX(tick), bottom + 16, tick, { anchor: "middle" })}`).join("");
  let x = leftOf(panel);
  const legend = models.map((name, i) => {
    const item = `<circle cx="${x + 4}" cy="${TOP - 14}" r="4" fill="${COLOURS[i % COLOURS.length]}"/>${words(x + 12, TOP - 10, name)}`;
    x += 24 + name.length * 6;
    return item;
  }).join("");
  const marks = kinds.map((kind, row) => kind.errors.map((error, i) => (error > 0
    ? `<circle cx="${toX(error)}" cy="${TOP + row * ROW + 10}" r="4" fill="${COLOURS[i % COLOURS.length]}" fill-opacity="0.8"><title>${escaped(kind.name)}, ${escaped(models[i])}: ${error}</title></circle>` : "")).join("")).join("");
  return words(leftOf(panel), TOP - 30, title, { size: 12 }) + legend + grid + marks;
}

// The whole picture.
export function kindsPlot(measured) {
  const { kinds } = measured;
  if (kinds.length === 0) throw new Error("no kinds of weights");
  const [width, height] = [leftOf(3), TOP + kinds.length * ROW + BOTTOM];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif">\n`
    + `<title>Kinds of weights: size, speed and error</title>\n<rect width="${width}" height="${height}" fill="white"/>\n`
    + [kinds.map((kind, row) => words(LABEL - 8, TOP + row * ROW + 14, kind.name, { size: 11, anchor: "end" })).join(""),
      bars(0, "7.2B in memory", kinds.map((kind) => kind.gigabytes), "GB"),
      bars(1, "one answer, 7.2B on an H200", kinds.map((kind) => kind.speed), "tok/s"),
      dots(2, "error of the logits, relative", measured)].join("\n") + "\n</svg>\n";
}
