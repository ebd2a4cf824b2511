// Makes the documents a small site of plain files: no server, no script, nothing from elsewhere.
//   node tools/site/build.mjs [OUT]      OUT: build/site unless told; open OUT/index.html
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

let pages;
try {
  pages = await import("./pages.mjs");
} catch (problem) {
  if (problem.code !== "MODULE_NOT_FOUND") throw problem;
  console.error("SKIPPED: npm ci has not been run in web/");
  process.exit(77);
}
const { DOCUMENTS, escaped, isLabNote, layout, pageOf, PARTS, render } = pages;

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const OUT = process.argv[2] ?? join(ROOT, "build/site");
const version = /^project\(fulmar VERSION (\S+)/m.exec(readFileSync(join(ROOT, "CMakeLists.txt"), "utf8"))[1];
const names = new Map(PARTS.flatMap(([, list]) => list));

rmSync(OUT, { recursive: true, force: true });
mkdirSync(join(OUT, "images"), { recursive: true });
copyFileSync(fileURLToPath(new URL("site.css", import.meta.url)), join(OUT, "site.css"));
const [problems, anchors, links, files] = [[], new Map(), [], new Set()];

const labNotes = readdirSync(join(ROOT, "docs/lab")).map((name) => `docs/lab/${name}`).filter(isLabNote);
for (const path of [...DOCUMENTS, ...labNotes]) {
  const made = render(path, readFileSync(join(ROOT, path), "utf8"));
  anchors.set(pageOf(path), new Set(made.headings.map(([, , anchor]) => anchor)));
  for (const [, href] of made.html.matchAll(/<a href="([^"]+)"/g)) links.push([path, href]);
  for (const file of made.files) files.add(file);
  for (const image of made.images) {
    if (existsSync(join(ROOT, image))) copyFileSync(join(ROOT, image), join(OUT, "images", basename(image)));
    else problems.push(`${path}: the image ${image} is not there`);
  }
  writeFileSync(join(OUT, pageOf(path)), layout({ path, title: names.get(path) ?? made.headings[0][1], version, ...made }));
}
// Files of the repository that documents link to: shown as they are.
for (const file of files) {
  if (!existsSync(join(ROOT, file))) {
    problems.push(`a document links to ${file}, which is not there`);
    continue;
  }
  const page = `${file.replaceAll("/", "-")}.html`;
  anchors.set(page, new Set());
  const html = `<h1>${escaped(file)}</h1><pre tabindex="0"><code>${escaped(readFileSync(join(ROOT, file), "utf8"))}</code></pre>`;
  writeFileSync(join(OUT, page), layout({ path: file, title: file, version, html, headings: [] }));
}
for (const [path, href] of links) {
  if (/^[a-z]+:/.test(href)) continue;
  const [page, anchor] = href.split("#");
  const there = anchors.get(page || pageOf(path));
  if (!there) problems.push(`${path}: ${href} leads nowhere`);
  else if (anchor && !there.has(anchor)) problems.push(`${path}: ${href} has no such heading`);
}
for (const problem of problems) console.error(problem);
console.log(`${anchors.size} pages in ${OUT}`);
process.exit(problems.length === 0 ? 0 : 1);
