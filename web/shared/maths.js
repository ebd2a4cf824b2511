// Formulas by KaTeX, set through the DOM, so that no inline style is parsed.
import katex from "katex";

export function setFormula(place) {
  const { tex, display } = place.dataset;
  place.dataset.set = "yes";
  katex.render(tex, place, {
    displayMode: display === "yes", throwOnError: false, trust: false, strict: false, maxExpand: 300, maxSize: 50, errorColor: "currentColor",
  });
}
