// deploy/kubernetes/fulmar.yaml: against the schemas of the Kubernetes API, against unknown fields, and against the
// program that it starts.
//   node kubernetes_test.mjs PROGRAM MANIFEST METRICS_DOCUMENT
// Exit code 77 means that the schemas are not installed.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

const SKIPPED = 77;
const [program, manifest, metrics] = parseArgs({ allowPositionals: true }).positionals;
const kinds = {
  Secret: "v1/Secret",
  Deployment: "apps/v1/Deployment",
  Service: "v1/Service",
  PodDisruptionBudget: "policy/v1/PodDisruptionBudget",
  HorizontalPodAutoscaler: "autoscaling/v2/HorizontalPodAutoscaler",
};

let yaml;
try {
  yaml = (await import("yaml")).default;
  await import("kubernetes-models/v1/Secret");
} catch {
  console.log("SKIPPED: node modules are missing: run npm ci in tests/fleet");
  process.exit(SKIPPED);
}

// The value, noting in `unread` every member that nobody has looked at: the validators look at all they know.
function watched(value, path, unread) {
  if (value === null || typeof value !== "object") return value;
  const copy = Array.isArray(value) ? [] : {};
  for (const [key, member] of Object.entries(value)) {
    copy[key] = watched(member, `${path}.${key}`, unread);
    unread.add(`${path}.${key}`);
  }
  return new Proxy(copy, {
    get(target, key) {
      unread.delete(`${path}.${String(key)}`);
      return target[key];
    },
  });
}

// What is wrong with one object, as texts.
async function problems(object) {
  const path = kinds[object.kind];
  if (!path || !path.startsWith(`${object.apiVersion}/`)) return [`${object.apiVersion} ${object.kind} is not expected here`];
  const Model = (await import(`kubernetes-models/${path}`))[object.kind];
  const unread = new Set();
  try {
    Model.prototype.validate.call(watched(object, object.kind, unread));
  } catch (problem) {
    return [problem.message];
  }
  return [...unread].map((field) => `unknown field ${field}`);
}

const objects = yaml.parseAllDocuments(readFileSync(manifest, "utf8")).map((document) => {
  assert.deepEqual(document.errors, []);
  return document.toJS();
});
const one = (kind) => {
  const found = objects.filter((object) => object.kind === kind);
  assert.equal(found.length, 1, `one ${kind}`);
  return found[0];
};

console.log("- every object fits its schema and has no unknown field");
assert.equal(objects.length, Object.keys(kinds).length);
for (const object of objects) assert.deepEqual(await problems(object), [], object.kind);

console.log("- the check notices what is wrong");
const broken = (change) => {
  const copy = structuredClone(one("Deployment"));
  change(copy.spec);
  return problems(copy);
};
assert.match((await broken((spec) => { spec.replicas = "three"; }))[0], /replicas/);
assert.match((await broken((spec) => { spec.template.spec.containers[0].livenessprobe = {}; }))[0], /livenessprobe/);
assert.match((await broken((spec) => { delete spec.selector; }))[0], /selector/);

console.log("- the objects belong together");
const deployment = one("Deployment");
const pod = deployment.spec.template;
const [container] = pod.spec.containers;
for (const selector of [deployment.spec.selector.matchLabels, one("Service").spec.selector,
  one("PodDisruptionBudget").spec.selector.matchLabels]) {
  for (const [key, value] of Object.entries(selector)) assert.equal(pod.metadata.labels[key], value, `label ${key}`);
}
const ports = container.ports.map((port) => port.name);
for (const probe of ["startupProbe", "readinessProbe", "livenessProbe"]) {
  assert.ok(ports.includes(container[probe].httpGet.port), `${probe} names a port`);
}
for (const { valueFrom: { secretKeyRef: secret } } of container.env) {
  if (!secret) continue;
  assert.equal(secret.name, one("Secret").metadata.name);
  assert.ok(secret.optional || secret.key in one("Secret").stringData, `the secret has ${secret.key}`);
}
const scaled = one("HorizontalPodAutoscaler").spec;
assert.deepEqual(scaled.scaleTargetRef, { apiVersion: "apps/v1", kind: "Deployment", name: deployment.metadata.name });
assert.ok(scaled.minReplicas > one("PodDisruptionBudget").spec.minAvailable, "one may be disturbed at the smallest size");
for (const volume of container.volumeMounts) {
  assert.ok(pod.spec.volumes.some((one) => one.name === volume.name), `volume ${volume.name}`);
}

console.log("- the program knows the flags, the routes and the figure");
const help = execFileSync(program, ["serve", "--help"], { encoding: "utf8" });
const flags = container.args.filter((word) => word.startsWith("--"));
for (const { name } of container.env) {
  if (name.startsWith("FULMAR_")) assert.match(help, new RegExp(`Env:${name}\\b`), name);
}
for (const flag of flags) assert.match(help, new RegExp(`${flag}\\b`), flag);
const grace = Number(container.args[container.args.indexOf("--grace") + 1]);
const pause = Number(container.lifecycle.preStop.exec.command.at(-1));
assert.ok(pod.spec.terminationGracePeriodSeconds >= grace + pause, "KILL comes after the drain");
const documented = readFileSync(metrics, "utf8");
for (const metric of scaled.metrics) assert.ok(documented.includes(`\`${metric.pods.metric.name}\``), "the scaled metric exists");
console.log("passed");
