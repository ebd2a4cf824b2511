// The worker's output: search, levels, and a view that follows the end.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Field } from "../shared/ui.jsx";
import { server } from "./fleet.js";
import { levelOf, linesOf } from "./log_lines.js";

const REFRESH_MS = 2000;
const TAIL = 2000;
const LEVELS = [["", "all"], ["warning", "warnings and errors"], ["error", "errors"]];
export function Log({ worker }) {
  const [lines, setLines] = useState([]);
  const [words, setWords] = useState("");
  const [level, setLevel] = useState("");
  const [follow, setFollow] = useState(true);
  const place = useRef();
  useEffect(() => {
    let over = false;
    const read = async () => {
      const found = await server.get(`api/workers/${worker.worker_id}/logs?tail=${TAIL}`).catch(() => null);
      if (found && !over) setLines(found.lines);
    };
    read();
    const timer = setInterval(read, REFRESH_MS);
    return () => { over = true; clearInterval(timer); };
  }, [worker.worker_id]);
  const shown = linesOf(lines, words, level);
  useLayoutEffect(() => { if (follow) place.current.scrollTop = place.current.scrollHeight; });
  const watch = () => {
    const { scrollHeight, scrollTop, clientHeight } = place.current;
    setFollow(scrollHeight - scrollTop - clientHeight < 12);
  };
  return (
    <>
      <div class="inline">
        <Field label="Search"><input type="search" value={words} onInput={(event) => setWords(event.currentTarget.value)} /></Field>
        <Field label="Level"><select value={level} onChange={(event) => setLevel(event.currentTarget.value)}>{LEVELS.map(([value, label]) => <option key={value} value={value}>{label}</option>)}</select></Field>
        <label class="check"><input type="checkbox" checked={follow} onChange={(event) => setFollow(event.currentTarget.checked)} /> Follow</label>
        <p class="soft" role="status">{shown.length} of {lines.length} lines</p>
      </div>
      <pre class="log" tabindex="0" role="log" aria-label="The worker's output" aria-live="off" ref={place} onScroll={watch}>
        {shown.map((line, i) => <span key={i} class={levelOf(line) ?? ""}>{line}{"\n"}</span>)}
      </pre>
    </>
  );
}
