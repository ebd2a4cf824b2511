// Texts drawn from the automaton of each schema of a suite, judged by ajv as the schema's draft says:
// DRAW=path of fulmar_draw_documents node schema_suite.mjs SUITE.jsonl[.xz] [--documents 10] [--sample COUNT]
// Prints each invalid text with its schema, those that ajv does not judge in time (its patterns backtrack), and a line of counts.
// Exits with 1 where one is invalid.
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import Ajv from "ajv";
import Ajv2019 from "ajv/dist/2019.js";
import Ajv2020 from "ajv/dist/2020.js";
import Ajv04 from "ajv-draft-04";
import addFormats from "ajv-formats";

const judgeMilliseconds = 10_000;
const program = process.env.DRAW;
if (!program) throw new Error("DRAW is not set; wanted the path of fulmar_draw_documents");
const [file, ...rest] = process.argv.slice(2);
const option = (name, fallback) => (rest.includes(name) ? Number(rest[rest.indexOf(name) + 1]) : fallback);
const documents = option("--documents", 10);
const sample = option("--sample", Infinity);

// Those of JSON Schema; others, such as ajv's own "url", annotate.
const formats = ["date", "time", "date-time", "duration", "email", "uuid", "uri", "uri-reference", "uri-template", "json-pointer",
  "relative-json-pointer", "regex", "ipv4", "ipv6", "hostname"];
const schemaMaps = ["properties", "patternProperties", "$defs", "definitions", "dependencies", "dependentSchemas"];
const schemaWords = ["items", "additionalItems", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
  "unevaluatedProperties", "prefixItems", "allOf", "anyOf", "oneOf"];

// The schema with `change` made to each part that is a schema.
function mapped(schema, change) {
  if (Array.isArray(schema)) return schema.map((one) => mapped(one, change));
  if (typeof schema !== "object" || schema === null) return schema;
  const copy = { ...schema };
  for (const word of schemaWords) if (word in copy) copy[word] = mapped(copy[word], change);
  for (const word of schemaMaps) {
    if (typeof copy[word] !== "object" || copy[word] === null || Array.isArray(copy[word])) continue;
    copy[word] = Object.fromEntries(Object.entries(copy[word]).map(([name, one]) => [name, mapped(one, change)]));
  }
  return change(copy);
}

// Drafts up to 7 ignore what stands beside a $ref; ajv does not. Definitions beside it stay, for references into them.
const refAlone = (schema) =>
  "$ref" in schema ? Object.fromEntries(Object.entries(schema).filter(([word]) => ["$ref", "$defs", "definitions", "$schema", "id", "$id"].includes(word))) : schema;
// Schemas that draft 4 does not know as such.
const isOld = (schema) => {
  let old = false;
  mapped(schema, (one) => {
    if (typeof one.id === "string" || typeof one.exclusiveMinimum === "boolean" || typeof one.exclusiveMaximum === "boolean") old = true;
    return one;
  });
  return old;
};

function validator(schema) {
  const options = { strict: false, multipleOfPrecision: 9, logger: false, validateSchema: false, addUsedSchema: false };
  const draft = typeof schema === "object" && schema !== null ? String(schema.$schema ?? "") : "";
  let judge = new Ajv2020(options);
  if (/draft-0[34]/.test(draft) || (draft === "" && isOld(schema))) judge = new Ajv04({ ...options, strict: false });
  else if (/draft-0[67]/.test(draft)) judge = new Ajv(options);
  else if (/2019-09/.test(draft)) judge = new Ajv2019(options);
  addFormats(judge, formats);
  const older = /draft-0[3467]/.test(draft);
  const judged = older ? mapped(schema, refAlone) : schema;
  if (typeof judged === "object" && judged !== null && judge instanceof Ajv04 === false && draft.length > 0) delete judged.$schema;
  return judge.compile(judged);
}

// Answers each {schema, texts} with {fault} or with the texts that are invalid and why.
function judge({ schema, texts }) {
  let validate;
  try {
    validate = validator(schema);
  } catch (error) {
    return { fault: error.message };
  }
  const invalid = [];
  for (const text of texts) {
    if (!validate(JSON.parse(text))) invalid.push({ text, errors: validate.errors.slice(0, 2) });
  }
  return { invalid };
}

// A judge on a thread of its own, which is ended where it takes too long.
let judging = null;
function verdict(asked) {
  judging ??= new Worker(new URL(import.meta.url), { argv: process.argv.slice(2) });
  const worker = judging;
  return new Promise((resolve) => {
    const late = setTimeout(() => {
      judging = null;
      void worker.terminate();
      worker.removeAllListeners();
      resolve({ fault: `not within ${judgeMilliseconds} ms` });
    }, judgeMilliseconds);
    worker.once("message", (answer) => {
      clearTimeout(late);
      resolve(answer);
    });
    worker.postMessage(asked);
  });
}

async function main() {
  const text = file.endsWith(".xz") ? spawnSync("xz", ["-dc", file], { maxBuffer: 2 ** 30 }).stdout.toString("utf8") : readFileSync(file, "utf8");
  let cases = text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  if (cases.length > sample) cases = Array.from({ length: sample }, (_, i) => cases[Math.floor((i * cases.length) / sample)]);

  const draw = spawn(program, ["--keep-going"], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: draw.stdout, crlfDelay: Infinity })[Symbol.asyncIterator]();
  const counts = { schemas: 0, refused: 0, unjudged: 0, documents: 0, invalid: 0 };
  for (const [i, { id, schema }] of cases.entries()) {
    counts.schemas++;
    draw.stdin.write(JSON.stringify({ schema, count: documents, seed: i + 1, unlisted: true }) + "\n");
    const drawn = [];
    while (drawn.length < documents) {
      const { value: line, done } = await lines.next();
      if (done) throw new Error(`${id}: ${program} ended`);
      if (drawn.length === 0 && line.startsWith("refused: ")) break;
      drawn.push(line);
    }
    if (drawn.length === 0) {
      counts.refused++;
      continue;
    }
    const texts = drawn.filter((line) => line !== "unfinished");
    const answer = await verdict({ schema: JSON.parse(JSON.stringify(schema)), texts });
    if (answer.fault) {
      counts.unjudged++;
      console.log(`${id}: not judged: ${answer.fault}`);
      continue;
    }
    counts.documents += texts.length;
    counts.invalid += answer.invalid.length;
    for (const { text, errors } of answer.invalid) console.log(`${id}: ${text.slice(0, 600)}\n  ${JSON.stringify(errors).slice(0, 600)}`);
  }
  draw.stdin.end();
  console.log(JSON.stringify(counts));
  process.exitCode = counts.invalid > 0 ? 1 : 0;
  await judging?.terminate();
}

if (isMainThread) await main();
else parentPort.on("message", (asked) => parentPort.postMessage(judge(asked)));
