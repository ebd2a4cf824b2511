// The conversation on the page: its turns, and the view that follows an answer as long as the reader stays at its end.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { IconButton } from "../shared/ui.jsx";
import { Composer } from "./composer.jsx";
import { busy, current, path } from "./state.js";
import { Turn } from "./turn.jsx";
import { Welcome } from "./welcome.jsx";

const NEAR = 80;  // pixels from the end that still count as the end

export function Conversation() {
  const scroll = useRef();
  const pinned = useRef(true);
  const top = useRef(0);
  const [away, setAway] = useState(false);
  const turns = path.value;
  const toEnd = useCallback(() => { if (scroll.current) scroll.current.scrollTop = scroll.current.scrollHeight; }, []);
  // Only the reader's own way up leaves the end: text that grew in the meantime does not.
  const watch = useCallback(() => {
    if (!scroll.current) return;
    const { scrollHeight, scrollTop, clientHeight } = scroll.current;
    if (scrollHeight - scrollTop - clientHeight < NEAR) pinned.current = true;
    else if (scrollTop < top.current) pinned.current = false;
    top.current = scrollTop;
    setAway(!pinned.current);
  }, []);
  useLayoutEffect(() => {
    pinned.current = true;
    toEnd();
  }, [current.value?.id, turns.length]);
  // Whatever grows, an answer or a formula that was set, the end stays in sight while the reader is there.
  const none = turns.length === 0;
  useEffect(() => {
    const resized = new ResizeObserver(() => { if (pinned.current) toEnd(); });
    resized.observe(scroll.current);
    resized.observe(scroll.current.firstElementChild);
    return () => resized.disconnect();
  }, [none]);
  return (
    <>
      <div class="scroll" ref={scroll} onScroll={watch}>
        {none ? <Welcome /> : (
          <ol class="turns" aria-label="Conversation">
            {turns.map((node, i) => <Turn key={node.id} node={node} last={i + 1 === turns.length} />)}
          </ol>
        )}
      </div>
      <p class="hidden" role="status">{busy.value ? "The answer is being written" : none ? "" : "The answer is complete"}</p>
      <div class="foot">
        {away && !none && <IconButton icon="down" label="To the end" class="icon-button to-end" onClick={toEnd} />}
        <Composer />
      </div>
    </>
  );
}
