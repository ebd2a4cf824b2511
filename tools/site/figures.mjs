// Draws the documents' figures anew from their tables:  node tools/site/figures.mjs
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { kindsOf, kindsPlot } from "./kinds_plot.mjs";

const DOCS = fileURLToPath(new URL("../../docs/", import.meta.url));
writeFileSync(`${DOCS}images/quantisation.svg`, kindsPlot(kindsOf(readFileSync(`${DOCS}quantisation.md`, "utf8"))));
