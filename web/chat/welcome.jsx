// An empty conversation: where the model runs, and what to ask it.
import { attempt } from "../shared/ui.jsx";
import { send } from "./send.js";
import { model, models, serverProblem } from "./state.js";
import { whereabouts } from "./whereabouts.js";

// The bundled demo model knows a few tasks and nothing else; any other model gets questions for a language model.
const EXAMPLES = {
  demo: ["What is 123 + 456?", "Reverse: fulmar", "How do I start the server?", "Sort: pear, apple, fig"],
  other: [
    "Explain how a recurrent neural network differs from a transformer.",
    "Write a Python function that finds all prime numbers below n, with a short test.",
    "Plan a weekend in the mountains for two people, as a table.",
    "Derive the formula for the roots of a quadratic equation.",
  ],
};

export function Welcome() {
  const demo = model.value.startsWith("fulmar-demo");
  return (
    <section class="welcome" aria-labelledby="welcome-title">
      <h2 id="welcome-title">What would you like to ask?</h2>
      <p>{whereabouts(location)}</p>
      {serverProblem.value && <p class="problem" role="alert">{serverProblem.value}</p>}
      {models.value.length > 0 && (
        <ul class="examples" aria-label="Examples">
          {EXAMPLES[demo ? "demo" : "other"].map((text) => (
            <li key={text}><button type="button" onClick={() => attempt(() => send(text))}>{text}</button></li>
          ))}
        </ul>
      )}
    </section>
  );
}
