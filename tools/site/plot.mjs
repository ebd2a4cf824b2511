// Figures from the measured tables of SPEED.md: rows of Markdown to SVG. Pure.
// Colours are custom properties of site.css, so that a figure follows the page into the dark.

// The cells of a Markdown table's rows, without the line below the head: [[head...], [row...], ...]
export function cellsOf(table) {
  return table.trim().split("\n").filter((line) => !/^\|[-:| ]+\|$/.test(line.trim()))
    .map((line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim()));
}

// The numbers of a cell: "16,193 / **26.5**" has two; those of a percentage or of prose are none of them.
export function numbersOf(cell) {
  return cell.replaceAll("*", "").split("/").map((part) => /^\s*([\d,]+(?:\.\d+)?)(?:\s|$)/.exec(part)?.[1]).filter(Boolean)
    .map((text) => Number(text.replaceAll(",", "")));
}

// [{name, dashed, points: [[rows, tokens a second], ...]}] of the decode rows of a table, the columns named `columns`; of
// pairs "fp32 / fp16" the last number counts: each one's best.
export function decodeSeries(table, columns) {
  const [head, ...rows] = cellsOf(table);
  const series = columns.map(([column, name, dashed = false]) => ({ at: head.indexOf(column), name, dashed, points: [] }));
  const missing = series.find((one) => one.at < 0);
  if (missing) throw new Error(`the table has no column for '${missing.name}': ${head.join(" | ")}`);
  for (const cells of rows) {
    const batch = /^decode (\d+)\b/.exec(cells[0])?.[1];
    if (!batch) continue;
    for (const one of series) {
      const value = numbersOf(cells[one.at]).at(-1);
      if (value) one.points.push([Number(batch), value]);
    }
  }
  return series;
}

// [[label, {name: value}]] of the rows that begin with `prefix`.
export function barsOf(table, prefix, columns) {
  const [head, ...rows] = cellsOf(table);
  return rows.filter((cells) => cells[0].startsWith(prefix)).map((cells) => [cells[0].slice(prefix.length).trim(),
    Object.fromEntries(columns.map(([column, name]) => [name, numbersOf(cells[head.indexOf(column)] ?? "").at(-1) ?? null]))]);
}

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [720, 360, 64, 24, 24, 76];
export const escaped = (text) => String(text).replace(/[&<>"]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[letter]);
const short = (value) => (value >= 1e6 ? `${value / 1e6}M` : value >= 1000 ? `${value / 1000}k` : String(value));
const round = (value) => Math.round(value * 10) / 10;

function legend(names) {
  let x = LEFT;
  return names.map(([name, dashed], i) => {
    const item = `<line x1="${x}" x2="${x + 22}" y1="${HEIGHT - 14}" y2="${HEIGHT - 14}" class="line s${i}"${dashed ? ' stroke-dasharray="6 5"' : ""}/>`
      + `<text x="${x + 28}" y="${HEIGHT - 10}">${escaped(name)}</text>`;
    x += 44 + name.length * 7.2;
    return item;
  }).join("");
}

function frame(title, inner) {
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escaped(title)}" class="plot" xmlns="http://www.w3.org/2000/svg">`
    + `<text x="${LEFT}" y="14" class="title">${escaped(title)}</text>${inner}</svg>`;
}

// Lines over logarithmic axes; `series` as decodeSeries gives them.
export function linePlot({ title, x, y, series }) {
  const points = series.flatMap((one) => one.points);
  if (points.length === 0) throw new Error(`${title}: no figures`);
  const spanX = [Math.min(...points.map(([at]) => at)), Math.max(...points.map(([at]) => at))];
  const decades = [Math.floor(Math.log10(Math.min(...points.map(([, value]) => value)))), Math.ceil(Math.log10(Math.max(...points.map(([, value]) => value))))];
  const toX = (at) => round(LEFT + ((WIDTH - LEFT - RIGHT) * Math.log(at / spanX[0])) / Math.log(spanX[1] / spanX[0] || Math.E));
  const toY = (value) => round(HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * (Math.log10(value) - decades[0])) / (decades[1] - decades[0] || 1));
  const ticksX = [...new Set(points.map(([at]) => at))].sort((a, b) => a - b);
  const ticksY = Array.from({ length: decades[1] - decades[0] + 1 }, (_, i) => 10 ** (decades[0] + i));
  const grid = ticksY.map((value) => `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${toY(value)}" y2="${toY(value)}" class="grid"/><text x="${LEFT - 8}" y="${toY(value) + 4}" class="end">${short(value)}</text>`).join("")
    + ticksX.map((at) => `<text x="${toX(at)}" y="${HEIGHT - BOTTOM + 18}" class="middle">${short(at)}</text>`).join("");
  const lines = series.map((one, i) => {
    const path = one.points.map(([at, value]) => `${toX(at)},${toY(value)}`).join(" ");
    const dots = one.points.map(([at, value]) => `<circle cx="${toX(at)}" cy="${toY(value)}" r="3.5" class="dot s${i}"><title>${escaped(one.name)}, ${short(at)}: ${value.toLocaleString("en")}</title></circle>`).join("");
    return `<polyline points="${path}" class="line s${i}"${one.dashed ? ' stroke-dasharray="6 5"' : ""}/>${dots}`;
  }).join("");
  const axes = `<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - BOTTOM + 38}" class="middle">${escaped(x)}</text>`
    + `<text transform="translate(14 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" class="middle">${escaped(y)}</text>`;
  return frame(title, grid + axes + lines + legend(series.map((one) => [one.name, one.dashed])));
}

// Groups of bars from zero; `groups` as barsOf gives them.
export function barPlot({ title, y, groups }) {
  const names = [...new Set(groups.flatMap(([, values]) => Object.keys(values)))];
  const most = Math.max(0, ...groups.flatMap(([, values]) => Object.values(values)));
  if (most === 0) throw new Error(`${title}: no figures`);
  const step = 10 ** Math.floor(Math.log10(most));
  const top = Math.ceil(most / step) * step;
  const toY = (value) => round(HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * value) / top);
  const room = (WIDTH - LEFT - RIGHT) / groups.length;
  const wide = Math.min(40, (room * 0.8) / names.length);
  const grid = Array.from({ length: Math.round(top / step) + 1 }, (_, i) => i * step)
    .map((value) => `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${toY(value)}" y2="${toY(value)}" class="grid"/><text x="${LEFT - 8}" y="${toY(value) + 4}" class="end">${short(value)}</text>`).join("");
  const bars = groups.map(([label, values], group) => {
    const middle = LEFT + room * (group + 0.5);
    const own = names.map((name, i) => {
      const value = values[name];
      if (!value) return "";
      const x = round(middle + (i - names.length / 2) * wide);
      return `<rect x="${x + 1}" y="${toY(value)}" width="${round(wide - 2)}" height="${round(HEIGHT - BOTTOM - toY(value))}" class="bar s${i}"><title>${escaped(name)}, ${escaped(label)}: ${value.toLocaleString("en")}</title></rect>`;
    }).join("");
    return `${own}<text x="${round(middle)}" y="${HEIGHT - BOTTOM + 18}" class="middle">${escaped(label)}</text>`;
  }).join("");
  const axis = `<text transform="translate(14 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" class="middle">${escaped(y)}</text>`;
  return frame(title, grid + axis + bars + legend(names.map((name) => [name, false])));
}
