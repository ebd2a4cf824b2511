// What rendered Markdown gets afterwards, by libraries that are loaded when they are first needed: colours of code, set
// formulas, and the buttons of code blocks.
import { copyText } from "./clipboard.js";

const MOST_COLOURED = 60_000;  // characters of one code block

let highlighter = null;
let formulas = null;

function loadMaths() {
  if (!formulas) {
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = new URL("assets/maths.css", document.baseURI).href;
    document.head.append(style);
    formulas = import("./maths.js");
  }
  return formulas;
}

function setFormulas(places) {
  loadMaths().then(({ setFormula }) => {
    for (const place of places) if (place.isConnected) setFormula(place);
  });
}

function colour(blocks) {
  highlighter ??= import("./highlight.js");
  highlighter.then(({ colourCode }) => {
    for (const block of blocks) if (block.isConnected) colourCode(block);
  });
}

// Sets the formulas below `root`; with `finished` also colours its code.
export function decorate(root, finished) {
  const places = root.querySelectorAll(".maths:not([data-set])");
  if (places.length > 0) setFormulas([...places]);
  if (!finished) return;
  const blocks = [...root.querySelectorAll("code[data-language]:not([data-coloured])")]
    .filter((block) => block.dataset.language && block.textContent.length <= MOST_COLOURED);
  if (blocks.length > 0) colour(blocks);
}

// One listener for the copy buttons of all code blocks below `root`.
export function listenForCopies(root) {
  root.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy=code]");
    if (!button) return;
    const done = await copyText(button.closest(".code").querySelector("code").textContent.replace(/\n$/, ""));
    button.textContent = done ? "Copied" : "Not copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}
