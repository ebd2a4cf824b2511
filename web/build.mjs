// Bundles the pages into web/dist:
//   node build.mjs           writes web/dist
//   node build.mjs --check   says whether web/dist is what would be written; exit code 1 when it is not, 77 where the
//                            libraries are not installed (npm ci)
// The same sources and the same lock file give the same bytes on every machine.
import { mkdtempSync, readFileSync, readdirSync, rmSync, mkdirSync, writeFileSync, existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const { build } = await import("esbuild").catch((problem) => {
  if (problem.code !== "ERR_MODULE_NOT_FOUND") throw problem;
  console.error("SKIPPED: npm ci has not been run in web/");
  process.exit(77);
});

const WEB = dirname(fileURLToPath(import.meta.url));
const DIST = join(WEB, "dist");

// KaTeX names each font in three formats; every browser that runs these pages takes the first.
const oneFontFormat = {
  name: "one-font-format",
  setup: (set) => set.onLoad({ filter: /katex(\.min)?\.css$/ }, ({ path }) => ({
    contents: readFileSync(path, "utf8").replace(/,\s*url\([^)]*\.(woff|ttf)\)\s*format\(["'](woff|truetype)["']\)/g, ""),
    loader: "css",
  })),
};

// The licences of everything that the bundles contain.
function licences() {
  const lock = JSON.parse(readFileSync(join(WEB, "package-lock.json"), "utf8"));
  const parts = Object.entries(lock.packages).filter(([path, entry]) => path && !entry.dev && !entry.optional).map(([path, entry]) => {
    const folder = join(WEB, path);
    const file = existsSync(folder) && readdirSync(folder).find((name) => /^licen[cs]e(\.\w+)?$/i.test(name));
    const text = file ? readFileSync(join(folder, file), "utf8").trim() : `Licence: ${entry.license}`;
    return `${path.replace("node_modules/", "")} ${entry.version}\n\n${text}\n`;
  });
  return `The pages contain these libraries.\n\n${parts.join("\n----\n\n")}`;
}

async function bundle(outdir) {
  rmSync(outdir, { recursive: true, force: true });
  mkdirSync(outdir, { recursive: true });
  await build({
    absWorkingDir: WEB,
    entryPoints: {
      chat: "chat/main.jsx", dashboard: "dashboard/main.jsx", maths: "shared/maths.css",
    },
    outdir, bundle: true, splitting: true, format: "esm", minify: true, target: "es2022", charset: "utf8",
    jsx: "automatic", jsxImportSource: "preact", legalComments: "none", logLevel: "warning",
    chunkNames: "part-[hash]", assetNames: "[name]", loader: { ".woff2": "file" }, plugins: [oneFontFormat],
  });
  for (const page of ["chat.html", "dashboard.html"]) writeFileSync(join(outdir, page), readFileSync(join(WEB, page)));
  writeFileSync(join(outdir, "licences.txt"), licences());
}

function differences(wanted, found) {
  const names = new Set([...readdirSync(wanted), ...(existsSync(found) ? readdirSync(found) : [])]);
  return [...names].sort().filter((name) => {
    const [a, b] = [join(wanted, name), join(found, name)];
    return !existsSync(a) || !existsSync(b) || !readFileSync(a).equals(readFileSync(b));
  });
}

if (process.argv.includes("--check")) {
  const fresh = mkdtempSync(join(tmpdir(), "fulmar-web-"));
  await bundle(fresh);
  const stale = differences(fresh, DIST);
  rmSync(fresh, { recursive: true });
  if (stale.length > 0) {
    console.error(`web/dist is not what web/build.mjs makes: ${stale.join(", ")}. Run npm run build in web/.`);
    process.exit(1);
  }
} else {
  await bundle(DIST);
  for (const name of readdirSync(DIST).sort()) {
    const bytes = readFileSync(join(DIST, name));
    if (!name.endsWith(".woff2")) console.log(`${name.padEnd(22)} ${String(bytes.length).padStart(8)}  gzip ${String(gzipSync(bytes).length).padStart(7)}`);
  }
}
