// An answer on the page: Markdown of a text, or of one that is still growing.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { listenForCopies } from "./decorate.js";
import { paced } from "./pace.js";
import { StreamMarkdown } from "./stream_markdown.js";

// `live`: a LiveAnswer under way, or null; then `text` is whole.
export function MarkdownView({ text, live }) {
  const host = useRef();
  const stream = useRef();
  useLayoutEffect(() => {
    stream.current = new StreamMarkdown(host.current);
    listenForCopies(host.current);
  }, []);
  useLayoutEffect(() => {
    if (!live) stream.current.update(text, true);
  }, [live, text]);
  useEffect(() => {
    if (!live) return undefined;
    let over = false;
    const paint = paced(() => {
      if (!over) stream.current.update(live.text);
    });
    paint();
    const leave = live.subscribe(paint);
    return () => {
      over = true;
      leave();
    };
  }, [live]);
  return <div class="markdown" ref={host} />;
}

// Text that only grows, without Markdown: of thinking, and of plain completions.
export function GrowingText({ live, read, text }) {
  const place = useRef();
  useLayoutEffect(() => {
    if (!live) {
      if (place.current.textContent !== text) place.current.textContent = text;
      return undefined;
    }
    const node = document.createTextNode(read(live));
    place.current.replaceChildren(node);
    let shown = node.length;
    const paint = paced(() => {
      const whole = read(live);
      if (whole.length === shown) return;
      node.appendData(whole.slice(shown));
      shown = whole.length;
    });
    return live.subscribe(paint);
  }, [live, text]);
  return <div class="growing" ref={place} />;
}
