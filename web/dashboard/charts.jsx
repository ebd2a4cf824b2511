// Charts by uPlot: values under the pointer, a range to choose, and a colour that stays with its worker.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { bytes, milliseconds, rate } from "../shared/format.js";
import { fine, minutes } from "./fleet.js";
import { alignSeries, colourOf } from "./series.js";

export const RANGES = [["15 min", 900], ["1 h", 3600], ["24 h", 86_400]];
export const range = signal(900);

// Steps between the marks of an axis: round in the unit of its labels.
const DECIMAL = Array.from({ length: 10 }, (_, digits) => [1, 2, 5].map((step) => step * 10 ** digits)).flat();
const BINARY = Array.from({ length: 35 }, (_, bits) => 2 ** (bits + 10));

const KINDS = [
  { title: "Tokens per second", unit: rate, steps: DECIMAL, fields: [["tokens_per_second", "", false]] },
  { title: "First token", unit: (value) => milliseconds(value * 1000), fields: [["ttft_p50", "p50", false], ["ttft_p95", "p95", true]] },
  { title: "Rows", unit: (value) => Math.round(value).toString(), steps: DECIMAL, fields: [["rows_running", "running", false], ["rows_waiting", "queued", true]] },
  { title: "Memory", unit: bytes, steps: BINARY, fields: [["memory_bytes", "", false]] },
];

// A custom property as a colour that a canvas takes.
function resolved(property) {
  const probe = document.createElement("span");
  probe.style.color = `var(${property})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

const HEIGHT = 190;
const time = (seconds, withSeconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...(withSeconds && { second: "2-digit" }) });

const SHORTEST_SPAN = 120;  // seconds

// The chosen range, or less where the figures are younger.
function spanOf(plot) {
  const now = Date.now() / 1000;
  const oldest = plot.data?.[0]?.[0] ?? now;
  return [Math.max(now - range.value, Math.min(oldest, now - SHORTEST_SPAN)), now];
}

// Without a pointer over the chart, the legend tells the newest values.
const legendOfNewest = (plot) => { if (plot.cursor.left < 0 || plot.cursor.left === undefined) plot.setLegend({ idx: plot.data[0].length - 1 }, false); };

// Points that no line reaches, so that a lone answer is seen, too.
function lonePoints(plot, series) {
  const values = plot.data[series];
  const empty = (at) => values[at] === null || values[at] === undefined;
  return values.flatMap((_, i) => (!empty(i) && empty(i - 1) && empty(i + 1) ? [i] : []));
}

function optionsOf(kind, lines, width) {
  const [soft, line] = [resolved("--soft"), resolved("--line")];
  const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui" };
  const value = (_, shown) => (shown === null || shown === undefined ? "–" : kind.unit(shown));
  return {
    width, height: HEIGHT, legend: { markers: { dash: (plot, at) => (plot.series[at].dash ? "dashed" : "solid") } }, cursor: { y: false, focus: { prox: 20 } }, focus: { alpha: 0.35 },
    hooks: { setData: [legendOfNewest], setCursor: [legendOfNewest], ready: [legendOfNewest] },
    scales: { x: { range: spanOf }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => time(tick, ticks[1] - ticks[0] < 60)) }, { ...axis, size: 64, incrs: kind.steps, values: (_, ticks) => ticks.map((tick) => (tick === 0 ? "0" : kind.unit(tick))) }],
    series: [
      { label: "Time", value: (_, shown) => (shown ? time(shown, true) : "–") },
      ...lines.map(({ label, colour, dashed }) => ({
        label, stroke: resolved(`--series-${colour}`), width: 2, dash: dashed ? [5, 4] : undefined, value, points: { show: true, size: 5, filter: lonePoints },
      })),
    ],
  };
}

// One figure of several workers; `members` are [series, title].
function Chart({ kind, members }) {
  const place = useRef();
  const chart = useRef({});
  const map = range.value > 3600 ? minutes.value : fine.value;
  const lines = members.flatMap(([series, title]) => kind.fields.map(([field, label, dashed]) => (
    { series, field, colour: colourOf(series), dashed, label: label ? `${title} ${label}` : title })));
  const data = alignSeries(map, lines.map(({ series, field }) => [series, field]), { from: Date.now() / 1000 - range.value, step: range.value > 3600 ? 60 : 5 });
  useEffect(() => {
    const signature = JSON.stringify([lines.map((line) => line.label), matchMedia("(prefers-color-scheme: dark)").matches, document.documentElement.dataset.theme]);
    if (chart.current.signature !== signature) {
      chart.current.plot?.destroy();
      chart.current = { signature, plot: new uPlot(optionsOf(kind, lines, place.current.clientWidth), data, place.current) };
    } else {
      chart.current.plot.setData(data);
    }
  });
  useEffect(() => {
    const resized = new ResizeObserver(([{ contentRect }]) => chart.current.plot?.setSize({ width: contentRect.width, height: HEIGHT }));
    resized.observe(place.current);
    return () => { resized.disconnect(); chart.current.plot?.destroy(); };
  }, []);
  const latest = lines.map((line, i) => {
    const value = data[i + 1].findLast((one) => one !== null);
    return value === undefined ? null : `${line.label} ${kind.unit(value)}`;
  }).filter(Boolean);
  return (
    <figure class="chart">
      <figcaption>{kind.title}</figcaption>
      <div ref={place} role="img" aria-label={`${kind.title}: ${latest.join(", ") || "no figures yet"}`} />
    </figure>
  );
}

export function Charts({ members, title }) {
  return (
    <section class="panel" aria-label={title}>
      <div class="head">
        <h2>{title}</h2>
        <div class="tabs" role="group" aria-label="Range">
          {RANGES.map(([label, seconds]) => (
            <button type="button" key={label} aria-pressed={seconds === range.value} onClick={() => { range.value = seconds; }}>{label}</button>
          ))}
        </div>
      </div>
      <div class="charts">{KINDS.map((kind) => <Chart key={kind.title} kind={kind} members={members} />)}</div>
    </section>
  );
}
