// Which documents make the site, and how their Markdown becomes pages. Knows no files: text in, HTML out.
import { createRequire } from "node:module";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { barPlot, barsOf, decodeSeries, escaped, linePlot } from "./plot.mjs";

const require = createRequire(fileURLToPath(new URL("../../web/package.json", import.meta.url)));
const { Marked } = require("marked");
const highlighter = require("highlight.js/lib/core");
for (const [name, file] of [["bash", "bash"], ["json", "json"], ["python", "python"], ["cpp", "cpp"], ["yaml", "yaml"], ["ini", "ini"]]) {
  highlighter.registerLanguage(name, require(`highlight.js/lib/languages/${file}`));
}
const LANGUAGES = { sh: "bash", bash: "bash", json: "json", python: "python", cpp: "cpp", yaml: "yaml", ini: "ini" };

// The site's parts: [title, [[document, title in the list], ...]]
export const PARTS = [
  ["Begin", [["README.md", "Fulmar"], ["docs/start.md", "Quick start"], ["docs/models.md", "Models"], ["docs/clients.md", "Clients"]]],
  ["Use", [["docs/api.md", "API"], ["docs/operations.md", "Operations"], ["docs/migrating.md", "Migrating"], ["docs/gpu.md", "GPU"], ["docs/amd.md", "AMD"], ["docs/quantisation.md", "Quantisation"], ["docs/adapters.md", "Adapters"], ["docs/tuning.md", "Tuning"], ["docs/structured-output.md", "Structured output"], ["models/README.md", "The demo model"]]],
  ["Understand", [["ARCHITECTURE.md", "Architecture"], ["docs/model.md", "The mathematics"], ["docs/gpu-kernels.md", "GPU kernels"], ["docs/http.md", "HTTP conventions"], ["SPEED.md", "Speed"], ["docs/lab/README.md", "Lab notes"]]],
  ["Take part", [["CONTRIBUTING.md", "Contributing"], ["CHANGELOG.md", "Changes"]]],
];
export const DOCUMENTS = PARTS.flatMap(([, pages]) => pages.map(([path]) => path));

// Pages of the site that its list does not name: the index of the lab notes leads to each.
export const isLabNote = (path) => /^docs\/lab\/[^/]+\.md$/.test(path) && !DOCUMENTS.includes(path);

// Where a document's page lies: flat, so that every link is a name.
export const pageOf = (path) => (path === "README.md" ? "index.html" : `${path.replace(/^docs\//, "").replace(/\.md$/, "").replaceAll("/", "-").toLowerCase()}.html`);

export { escaped };

// Heading to anchor, as hubs make them.
export const anchorOf = (text) => text.toLowerCase().replace(/<[^>]*>/g, "").replace(/[^\p{L}\p{N} _-]/gu, "").trim().replaceAll(" ", "-");

// A link of the document `from`: {page} within the site, {file} of the repository, {away} elsewhere.
export function targetOf(from, href) {
  if (/^[a-z]+:/.test(href)) return { away: href };
  const [path, anchor = ""] = href.split("#");
  const hash = anchor ? `#${anchor}` : "";
  if (path === "") return { page: hash };
  const file = posix.normalize(posix.join(posix.dirname(from), path));
  if (file === "docs") return { page: `index.html${hash}` };
  return DOCUMENTS.includes(file) || isLabNote(file) ? { page: pageOf(file) + hash } : { file };
}

const COLUMNS = [["Fulmar tok/s", "Fulmar"], ["peer", "best peer"], ["in a graph", "best peer in a graph"], ["roofline", "roofline", true]];

// A table of measurements to the figures that belong below it, or "".
export function figureOf(markdown) {
  const head = markdown.split("\n")[0];
  if (!head.includes("| peer |") || !head.includes("| roofline |")) return "";
  const columns = COLUMNS.filter(([column]) => head.includes(`| ${column} |`));
  if (markdown.match(/^\| decode \d/gm)?.length < 4) return "";
  const lines = linePlot({ title: "Tokens a second against batch size", x: "rows that decode together", y: "tokens a second",
    series: decodeSeries(markdown, columns) });
  const groups = barsOf(markdown, "prefill ", columns);
  const bars = groups.length ? barPlot({ title: "Prefill: tokens a second", y: "tokens a second", groups }) : "";
  return `<figure>${lines}</figure>${bars && `<figure>${bars}</figure>`}`;
}

// {html, headings: [[level, text, anchor]], files: repository files that are linked, images}
export function render(path, text) {
  const [headings, files, images, seen] = [[], new Set(), new Set(), new Map()];
  const marked = new Marked({ gfm: true });
  marked.use({
    renderer: {
      heading({ tokens, depth }) {
        const inner = this.parser.parseInline(tokens);
        const base = anchorOf(inner);
        const again = seen.get(base) ?? 0;
        seen.set(base, again + 1);
        const anchor = again ? `${base}-${again}` : base;
        headings.push([depth, inner.replace(/<[^>]*>/g, ""), anchor]);
        return `<h${depth} id="${anchor}"><a href="#${anchor}" class="anchor">${inner}</a></h${depth}>\n`;
      },
      link({ href, tokens }) {
        const inner = this.parser.parseInline(tokens);
        const { page, file, away } = targetOf(path, href);
        if (file) files.add(file);
        return `<a href="${escaped(away ?? page ?? `${file.replaceAll("/", "-")}.html`)}">${inner}</a>`;
      },
      image({ href, text: title }) {
        const { file } = targetOf(path, href);
        images.add(file);
        return `<img src="images/${escaped(posix.basename(file))}" alt="${escaped(title)}" loading="lazy">`;
      },
      code({ text: code, lang }) {
        const language = LANGUAGES[lang];
        const inner = language ? highlighter.highlight(code, { language }).value : escaped(code);
        return `<pre tabindex="0"><code class="${lang === "sh" ? "runs" : ""}">${inner}</code></pre>\n`;
      },
      html: ({ text: raw }) => escaped(raw),
    },
  });
  // A table of measurements is followed by its figure.
  const html = marked.lexer(text).map((token) => {
    const block = marked.parser([token]);
    return token.type === "table" ? `<div class="table" tabindex="0">${block}</div>${figureOf(token.raw)}` : block;
  }).join("");
  return { html, headings, files: [...files], images: [...images] };
}

// A whole page around `html`.
export function layout({ path, title, html, headings, version }) {
  const current = pageOf(path);
  const list = PARTS.map(([part, pages]) => `<h2>${part}</h2><ul>${pages.map(([document, name]) => {
    const page = pageOf(document);
    return `<li><a href="${page}"${page === current ? ' aria-current="page"' : ""}>${name}</a></li>`;
  }).join("")}</ul>`).join("");
  const within = headings.filter(([level]) => level === 2);
  const contents = within.length > 1 ? `<nav class="contents" aria-label="On this page"><h2>On this page</h2><ul>${within.map(([, text, anchor]) => `<li><a href="#${anchor}">${text}</a></li>`).join("")}</ul></nav>` : "";
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(title)} · Fulmar ${escaped(version)}</title>
<link rel="stylesheet" href="site.css">
</head>
<body>
<a class="skip" href="#main">Skip to the text</a>
<header><a href="index.html" class="name">Fulmar</a> <span>${escaped(version)}</span> <a href="#documents" class="to-documents">Documents</a></header>
<main id="main">${html}</main>
<nav class="pages" id="documents" aria-label="Documents">${list}</nav>
${contents}
</body>
</html>
`;
}
