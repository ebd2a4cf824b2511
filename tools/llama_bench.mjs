// The peer's side of the CPU tables of SPEED.md: llama.cpp, by its binaries for this processor in the npm package
// node-llama-cpp, on a GGUF file that Fulmar reads, too. Prints medians of decoding some sequences together
// and of one prompt, tok/s.
//   npm install --no-save node-llama-cpp
//   node tools/llama_bench.mjs FILE.gguf [THREADS [SEQUENCES,... [PROMPT]]]
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const [file, threads = "2", sequences = "1,4,16", prompt = "512"] = process.argv.slice(2);
const llama = await getLlama({
  gpu: false,
  build: "never",
  skipDownload: true,
  logLevel: LlamaLogLevel.error,
  maxThreads: Number(threads),
});
const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const some = (index) => ((index * 7919) % 60000) + 10;

async function seconds(act) {
  const start = performance.now();
  await act();
  return (performance.now() - start) / 1000;
}

async function decode(count) {
  const context = await model.createContext({ sequences: count, contextSize: 4096, batchSize: 512, threads: Number(threads) });
  const all = Array.from({ length: count }, () => context.getSequence());
  let index = 0;
  const step = () =>
    Promise.all(all.map((one) => one.controlledEvaluate([[some(index++), { generateNext: { token: true } }]])));
  await step();
  await step();
  const times = [];
  for (let i = 0; i < (count === 1 ? 40 : 12); i++) times.push(await seconds(step));
  await context.dispose();
  console.log(`decode ${count}: ${(count / median(times)).toFixed(1)} tok/s`);
}

async function prefill(count) {
  const context = await model.createContext({ sequences: 1, contextSize: 8192, batchSize: 512, threads: Number(threads) });
  const sequence = context.getSequence();
  const times = [];
  for (let i = 0; i < 4; i++) {
    await sequence.clearHistory();
    const tokens = Array.from({ length: count }, (_, k) => some(k + i));
    times.push(await seconds(() => sequence.evaluateWithoutGeneratingNewTokens(tokens)));
  }
  console.log(`prefill 1x${count}: ${(count / median(times.slice(1))).toFixed(1)} tok/s`);
}

for (const count of sequences.split(",")) await decode(Number(count));
await prefill(Number(prompt));
process.exit(0);
