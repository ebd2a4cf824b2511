// The conversation on the page: its turns, and the view that follows an answer as long as the reader stays at its end.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { IconButton } from "../shared/ui.jsx";
import { Composer } from "./composer.jsx";
import { current, path } from "./state.js";
import { Turn } from "./turn.jsx";
import { Welcome } from "./welcome.jsx";

const NEAR = 80;  // pixels from the end that still count as the end

export function Conversation() {
  const scroll = useRef();
  const pinned = useRef(true);
  const [away, setAway] = useState(false);
  const turns = path.value;
  const toEnd = useCallback(() => { scroll.current.scrollTop = scroll.current.scrollHeight; }, []);
  const follow = useCallback(() => { if (pinned.current) toEnd(); }, []);
  // The only place that reads the layout is the reader's own scrolling.
  const watch = useCallback(() => {
    const { scrollHeight, scrollTop, clientHeight } = scroll.current;
    pinned.current = scrollHeight - scrollTop - clientHeight < NEAR;
    setAway(!pinned.current);
  }, []);
  useLayoutEffect(() => {
    pinned.current = true;
    toEnd();
  }, [current.value?.id, turns.length]);
  useEffect(() => {
    const resized = new ResizeObserver(follow);
    resized.observe(scroll.current);
    return () => resized.disconnect();
  }, []);
  return (
    <>
      <div class="scroll" ref={scroll} onScroll={watch}>
        {turns.length === 0 ? <Welcome /> : (
          <ol class="turns" aria-label="Conversation">
            {turns.map((node, i) => <Turn key={node.id} node={node} last={i + 1 === turns.length} onPaint={follow} />)}
          </ol>
        )}
      </div>
      <div class="foot">
        {away && turns.length > 0 && <IconButton icon="down" label="To the end" class="icon-button to-end" onClick={toEnd} />}
        <Composer />
      </div>
    </>
  );
}
