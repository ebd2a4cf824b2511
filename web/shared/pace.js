// Work that is asked for often and done at most once a frame, and at most a small part of the time.

const SHARE = 0.15;  // of a core that painting may take

// A function that asks for `work`; several asks before the next frame are one. After work of t milliseconds the next
// begins no sooner than t / SHARE later, so that a slow machine or a long text never makes the page stand still.
export function paced(work) {
  let asked = false;
  let running = false;
  const run = () => {
    asked = false;
    const begun = performance.now();
    work();
    const rest = (performance.now() - begun) / SHARE;
    setTimeout(() => {
      running = false;
      if (asked) ask();
    }, Math.max(0, rest));
  };
  const ask = () => {
    asked = true;
    if (running) return;
    running = true;
    requestAnimationFrame(run);
  };
  return ask;
}
