// Markdown to safe HTML: block tokens by marked, maths kept for KaTeX, raw HTML shown as text, everything through
// DOMPurify. Knows nothing of streams and conversations.
import { Lexer, Marked } from "marked";
import DOMPurify from "dompurify";

const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escape = (text) => text.replace(/[&<>"]/g, (one) => escapes[one]);

// ---- maths: $$...$$ and \[...\] as blocks or within text, $...$ and \(...\) within text

// A formula has a longest length: a mark that none closes would be looked for to the end of the text, from every mark.
const BLOCK_MATHS = /^ {0,3}(?:\$\$([\s\S]{1,4000}?)\$\$|\\\[([\s\S]{1,4000}?)\\\])[ \t]*(?:\n|$)/;
const INLINE_MATHS = /^(?:\$\$([^$\n]{1,1000}?)\$\$|\\\[([^\n]{1,1000}?)\\\]|\\\(([^\n]{1,1000}?)\\\)|\$(?![\s\d])((?:\\.|[^$\\\n]){1,1000}?)(?<!\s)\$(?!\d))/;
// Its marks where it may end a paragraph, and how far it is looked for.
const BLOCK_MARKS = [{ opens: "$$", closes: /\$\$[ \t]*(?:\n|$)/g }, { opens: "\\[", closes: /\\\][ \t]*(?:\n|$)/g }];
const FAR = 4000;

// Where the first block formula begins near the front of a text; undefined where none does. Looks at each sign once: behind a
// first mark that nothing closes another one is closed by nothing, too.
function nextBlockMaths(source) {
  const near = source.slice(0, 2 * FAR);
  const places = BLOCK_MARKS.flatMap(({ opens, closes }) => {
    const place = near.indexOf(opens);
    if (place < 0 || place > FAR) return [];
    closes.lastIndex = place + 3;
    const end = closes.exec(near);
    const cut = near.length < source.length && end && end.index + end[0].length === near.length;
    return end && !cut && end.index <= place + 2 + FAR ? [place] : [];
  });
  return places.length > 0 ? Math.min(...places) : undefined;
}

function mathsToken(type, match, display) {
  return { type, raw: match[0], tex: match.slice(1).find((group) => group !== undefined).trim(), display };
}

const mathsHtml = ({ tex, display }) =>
  `<${display ? "div" : "span"} class="maths" data-tex="${escape(tex)}"${display ? ' data-display="yes"' : ""}>${escape(tex)}</${display ? "div" : "span"}>`;

const mathsExtensions = [
  {
    name: "blockMaths", level: "block", renderer: mathsHtml,
    start: nextBlockMaths,
    tokenizer(source) {
      const match = BLOCK_MATHS.exec(source);
      return match ? mathsToken("blockMaths", match, true) : undefined;
    },
  },
  {
    name: "inlineMaths", level: "inline", renderer: mathsHtml,
    start: (source) => source.slice(0, FAR).match(/\$|\\[([]/)?.index,
    tokenizer(source) {
      const match = INLINE_MATHS.exec(source);
      return match ? mathsToken("inlineMaths", match, Boolean(match[1] ?? match[2])) : undefined;
    },
  },
];

// ---- bounds: an answer may be made to be slow to read

// Emphasis and links within one text cost up to the square of its length, over all texts at most so much.
const LONGEST_INLINE = 8000;
const MOST_INLINE_WORK = 4e8;
const DEEPEST = 32;  // blocks within each other

// Text that is shown as it is written.
const plainToken = (source) => ({ type: "plain", raw: source, text: source });
const plainExtension = { name: "plain", renderer: ({ text }) => `<div class="plain">${escape(text)}</div>` };

class BoundedLexer extends Lexer {
  #depth = 0;

  lex(source) {
    this.blockTokens(source.replace(/\r\n|\r/g, "\n"), this.tokens);
    let work = 0;
    for (const { src, tokens } of this.inlineQueue) {
      work += src.length ** 2;
      this.state.inRawBlock = false;
      if (src.length <= LONGEST_INLINE && work <= MOST_INLINE_WORK) this.inlineTokens(src, tokens);
      else tokens.push({ type: "text", raw: src, text: src, escaped: false });
    }
    this.inlineQueue = [];
    return this.tokens;
  }

  blockTokens(source, tokens = [], lastParagraphClipped = false) {
    if (this.#depth >= DEEPEST) {
      tokens.push(plainToken(source));
      return tokens;
    }
    this.#depth += 1;
    try {
      return super.blockTokens(source, tokens, lastParagraphClipped);
    } finally {
      this.#depth -= 1;
    }
  }
}

// ---- HTML of the tokens that differ from marked's own

const renderer = {
  html: ({ text }) => escape(text),
  code({ text, lang }) {
    const language = (lang ?? "").match(/^[\w+#.-]*/)[0].toLowerCase();
    return `<div class="code"><div class="code-bar"><span>${escape(language || "text")}</span>` +
      `<button type="button" class="code-copy" data-copy="code">Copy</button></div>` +
      `<pre tabindex="0" role="region" aria-label="Code"><code data-language="${escape(language)}">${escape(text)}\n</code></pre></div>`;
  },
  link({ href, title, tokens }) {
    const label = this.parser.parseInline(tokens);
    if (!/^(https?:|mailto:)/i.test(href)) return label;
    return `<a href="${escape(href)}" target="_blank" rel="noopener noreferrer"${title ? ` title="${escape(title)}"` : ""}>${label}</a>`;
  },
  // Pictures are never loaded: an address in an answer must not tell anybody that it was read.
  image({ href, text }) {
    const label = escape(text || href);
    return /^https?:/i.test(href) ? `<a href="${escape(href)}" target="_blank" rel="noopener noreferrer">${label}</a>` : label;
  },
  checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
};

const marked = new Marked({ gfm: true, breaks: true, renderer, extensions: [] });
marked.use({ extensions: [...mathsExtensions, plainExtension] });
// Wide tables scroll by themselves, and the keyboard reaches them.
marked.use({
  renderer: {
    table(token) {
      const cells = (row, tag) => `<tr>${row.map((cell) => `<${tag}${cell.align ? ` class="${cell.align}"` : ""}>${this.parser.parseInline(cell.tokens)}</${tag}>`).join("")}</tr>`;
      return `<div class="table" tabindex="0" role="region" aria-label="Table"><table><thead>${cells(token.header, "th")}</thead>` +
        `<tbody>${token.rows.map((row) => cells(row, "td")).join("")}</tbody></table></div>`;
    },
  },
});

const CLEAN = {
  USE_PROFILES: { html: true }, ADD_ATTR: ["target"], FORBID_TAGS: ["style", "form", "input", "img", "video", "audio", "picture", "svg", "math"],
  FORBID_ATTR: ["style", "id", "name"], RETURN_DOM_FRAGMENT: true,
};

// The block tokens of `source`; where reading it fails, one that shows it as it is. `links`: reference definitions found so
// far; new ones are added to it.
export function blocksOf(source, links = {}) {
  try {
    const lexer = new BoundedLexer(marked.defaults);
    Object.assign(lexer.tokens.links, links);
    const tokens = lexer.lex(source);
    Object.assign(links, tokens.links);
    return tokens;
  } catch {
    return [plainToken(source)];
  }
}

// The HTML of block tokens, not yet clean; of tokens that cannot be written, what they were read from.
export function htmlOf(tokens) {
  try {
    return marked.parser(tokens);
  } catch {
    return marked.parser([plainToken(tokens.map((token) => token.raw).join(""))]);
  }
}

// A DocumentFragment of block tokens.
export function fragmentOf(tokens) {
  return DOMPurify.sanitize(htmlOf(tokens), CLEAN);
}
