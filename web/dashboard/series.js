// Series of figures by worker: merging what is new, and lining them up for a chart. Pure.

// The known series with the fresh samples behind them, without what is older than `oldest`.
export function mergeSeries(known, fresh, oldest) {
  const merged = new Map();
  for (const name of new Set([...known.keys(), ...Object.keys(fresh)])) {
    const [before, after] = [known.get(name), fresh[name]];
    const fields = Object.keys(after ?? before);
    const whole = Object.fromEntries(fields.map((field) => [field, [...(before?.[field] ?? []), ...(after?.[field] ?? [])]]));
    const first = whole.time.findIndex((time) => time >= oldest);
    if (first < 0) continue;
    merged.set(name, first === 0 ? whole : Object.fromEntries(fields.map((field) => [field, whole[field].slice(first)])));
  }
  return merged;
}

// Samples of different workers fall on slightly different times; they are lined up on a grid of `step` seconds.
// [times, ...values of each wanted line]; `lines` are [series, field]. Holes longer than `gap` steps stay holes.
export function alignSeries(map, lines, { from, step }) {
  const slot = (time) => Math.floor(time / step);
  const slots = new Set();
  for (const [name] of lines) for (const time of map.get(name)?.time ?? []) if (time >= from) slots.add(slot(time));
  const order = [...slots].sort((a, b) => a - b);
  // A missing slot between two samples is a break in the line.
  const all = order.flatMap((one, i) => (i > 0 && one - order[i - 1] > 3 ? [order[i - 1] + 1, one] : [one]));
  const index = new Map(all.map((one, i) => [one, i]));
  const columns = lines.map(([name, field]) => {
    const column = new Array(all.length).fill(null);
    const series = map.get(name);
    series?.time.forEach((time, i) => { if (time >= from) column[index.get(slot(time))] = series[field][i]; });
    return column;
  });
  return [all.map((one) => one * step), ...columns];
}

// A colour for each name that stays with it for as long as the page is open, whatever comes and goes.
const COLOURS = 8;
const given = new Map();
export function colourOf(name) {
  if (!given.has(name)) {
    const used = new Set(given.values());
    const free = Array.from({ length: COLOURS }, (_, i) => i).find((one) => !used.has(one));
    given.set(name, free ?? given.size % COLOURS);
  }
  return given.get(name);
}
