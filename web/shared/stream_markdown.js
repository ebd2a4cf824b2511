// Markdown that grows: blocks that are complete are rendered once and never touched again; only the last one is rendered
// anew when text comes. So a stream costs time in proportion to its length.
import { decorate } from "./decorate.js";
import { blocksOf, fragmentOf } from "./markdown.js";

// A last block longer than this (a list of a thousand items, a paragraph without end) shows its further text plainly
// until it is complete.
const LONGEST_LIVE = 8000;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;

// The offset behind the blocks that no further text can change, and these blocks. Pure.
export function settledBlocks(source, links) {
  const tokens = blocksOf(source, links);
  let last = tokens.length - 1;
  while (last >= 0 && tokens[last].type === "space") last -= 1;
  const settled = tokens.slice(0, Math.max(0, last));
  const offset = settled.reduce((sum, token) => sum + token.raw.length, 0);
  // Tabs and line ends may be written differently in tokens than in the source: then nothing is taken as settled.
  const same = source.startsWith(settled.map((token) => token.raw).join(""));
  return same ? { settled, offset, live: tokens.slice(settled.length) } : { settled: [], offset: 0, live: tokens };
}

// Where the fenced block that `source` begins with is closed, at or after `from`; -1 while it is open.
export function fenceEnd(source, from) {
  const fence = FENCE.exec(source)?.[1];
  if (!fence) return -1;
  const closing = new RegExp(`\\n {0,3}${fence[0] === "~" ? "~" : "`"}{${fence.length},}[ \\t]*(?=\\n)`, "g");
  closing.lastIndex = Math.max(source.indexOf("\n"), from);
  return closing.exec(source)?.index ?? -1;
}

export class StreamMarkdown {
  #host;
  #live = document.createElement("div");
  #tail = "";      // source of what is not settled
  #links = {};
  #plain = null;   // text node that further text goes to: of an open fence, or of a long block
  #fenced = false;
  #shown = 0;      // of #tail, in #plain
  #finished = false;
  source = "";

  constructor(host) {
    this.#host = host;
    this.#live.className = "live";
    host.replaceChildren(this.#live);
  }

  // Makes the source `text`, cheaply where it only grew.
  update(text, finished = false) {
    // Text behind a finished one may go on within its last block.
    if (!text.startsWith(this.source) || (this.#finished && text.length > this.source.length)) this.#reset();
    const more = text.slice(this.source.length);
    if (!more && !finished) return;
    this.source = text;
    this.#tail += more;
    if (this.#plain && !finished && this.#grow()) return;
    this.#render(finished);
    this.#finished = finished;
  }

  #reset() {
    this.source = this.#tail = "";
    this.#links = {};
    this.#plain = null;
    this.#host.replaceChildren(this.#live);
    this.#live.replaceChildren();
  }

  // Adds the further text to the plain node; false when the block may have ended.
  #grow() {
    const ended = this.#fenced ? fenceEnd(this.#tail, this.#shown - 16) >= 0 : this.#tail.indexOf("\n\n", this.#shown - 2) >= 0;
    if (ended) return false;
    this.#plain.appendData(this.#tail.slice(this.#shown));
    this.#shown = this.#tail.length;
    return true;
  }

  #render(finished) {
    const { settled, offset, live } = settledBlocks(this.#tail, this.#links);
    const complete = finished ? [...settled, ...live] : settled;
    if (complete.length > 0) this.#settle(complete);
    this.#tail = finished ? "" : this.#tail.slice(offset);
    this.#plain = null;
    this.#live.replaceChildren(...(finished ? [] : [fragmentOf(live)]));
    if (!finished) this.#watchLast(live.findLast((token) => token.type !== "space"));
    decorate(this.#live, false);
  }

  #settle(tokens) {
    const box = document.createElement("div");
    box.className = "blocks";
    box.append(fragmentOf(tokens));
    this.#live.before(box);
    decorate(box, true);
  }

  // From here on an open fence and a long block only take further text.
  #watchLast(token) {
    this.#fenced = token?.type === "code" && FENCE.test(this.#tail) && fenceEnd(`${this.#tail}\n`, 0) < 0 && this.#tail.includes("\n");
    if (this.#fenced) {
      const code = this.#live.querySelector("code");
      this.#plain = document.createTextNode("");
      code.textContent = this.#tail.slice(this.#tail.indexOf("\n") + 1);
      code.append(this.#plain);
    } else if (this.#tail.length > LONGEST_LIVE) {
      this.#plain = document.createTextNode("");
      this.#live.append(this.#plain);
    }
    this.#shown = this.#tail.length;
  }
}
