// Work that is asked for often and done at most thirty times a second, and at most a small part of the time.

const SHARE = 0.15;     // of a core that painting may take
const SHORTEST_MS = 33; // between two paints

// A function that asks for `work`; several asks before the next frame are one. After a frame of t milliseconds, with its
// layout, the next begins no sooner than t / SHARE later: a slow machine or a long text never makes the page stand still.
export function paced(work) {
  let asked = false;
  let running = false;
  const rest = (milliseconds) => setTimeout(() => {
    running = false;
    if (asked) ask();
  }, milliseconds);
  const run = () => {
    asked = false;
    const begun = performance.now();
    work();
    // Runs behind the layout and the painting of this frame.
    setTimeout(() => rest(Math.max(SHORTEST_MS, (performance.now() - begun) / SHARE)));
  };
  const ask = () => {
    asked = true;
    if (running) return;
    running = true;
    requestAnimationFrame(run);
  };
  return ask;
}
