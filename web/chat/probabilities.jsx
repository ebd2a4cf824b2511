// Tokens of an answer tinted by how probable they were, each with its alternatives.
import { useEffect, useState } from "preact/hooks";
import { notify } from "../shared/ui.jsx";
import { model, nodes, server, settings } from "./state.js";
import { promptTo } from "./template.js";
import { pathTo } from "./tree.js";

const TINTS = [[0.9, "sure"], [0.6, "likely"], [0.3, "open"], [0.1, "unlikely"], [0, "rare"]];
const MOST_TOKENS = 4000;

const share = (logprob) => Math.exp(logprob);
const percent = (logprob) => `${(100 * share(logprob)).toFixed(share(logprob) < 0.1 ? 1 : 0)} %`;
export const tintOf = (logprob) => TINTS.find(([least]) => share(logprob) >= least)[1];
const visible = (token) => token.replaceAll("\n", "↵\n");

// Answers that came without log-probabilities are scored afterwards: the server reads prompt and answer and generates nothing.
async function score(node) {
  const name = node.model || model.value;
  const { before, padZero } = await promptTo(name, pathTo(nodes.value, node.id), settings.value.system);
  const asked = { model: name, prompt: before + node.text, pad_zero: padZero, echo: true, logprobs: 5, max_tokens: 0 };
  const { choices } = await server.post("v1/completions", asked);
  const { tokens, token_logprobs: logprobs, top_logprobs: tops, text_offset: offsets } = choices[0].logprobs;
  return tokens.map((token, i) => ({ token, logprob: logprobs[i] ?? 0, tops: Object.entries(tops[i] ?? {}), at: offsets[i] }))
    .filter((one) => one.at >= [...before].length);  // offsets count characters
}

export function Probabilities({ node }) {
  const [tokens, setTokens] = useState(node.tops?.length ? node.tops : null);
  const [chosen, setChosen] = useState(null);
  useEffect(() => {
    if (tokens) return;
    score(node).then(setTokens, (problem) => { notify(problem.message, true); setTokens([]); });
  }, [node.id]);
  if (!tokens) return <p class="soft">Scoring the answer</p>;
  const one = tokens[chosen];
  return (
    <div class="odds">
      <p class="tokens">
        {tokens.slice(0, MOST_TOKENS).map((token, i) => (
          <button type="button" key={i} class={tintOf(token.logprob)} aria-pressed={i === chosen} title={percent(token.logprob)}
            onClick={() => setChosen(i === chosen ? null : i)}>{visible(token.token)}</button>
        ))}
      </p>
      {one && (
        <table class="alternatives">
          <caption>Instead of “{visible(one.token)}” ({percent(one.logprob)})</caption>
          <tbody>
            {[...one.tops].sort((a, b) => b[1] - a[1]).map(([token, logprob]) => (
              <tr key={token} class={token === one.token ? "taken" : ""}>
                <td>{visible(token)}</td><td class="number">{percent(logprob)}</td>
                <td><meter min="0" max="1" value={share(logprob)} aria-label={percent(logprob)} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
