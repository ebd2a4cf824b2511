// Documents drawn under schemas of every supported keyword, judged by an independent validator:
// DRAW=path of fulmar_draw_documents node --test schemas.mjs
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

const program = process.env.DRAW;
if (!program) throw new Error("DRAW is not set; wanted the path of fulmar_draw_documents");
const count = Number(process.env.DOCUMENTS || 200);

const text = (more) => ({ type: "string", ...more });
const whole = (more) => ({ type: "integer", ...more });
const object = (properties, more = {}) => ({ type: "object", properties, ...more });
const closed = { additionalProperties: false };

// What zod's toJSONSchema writes for the calls named.
const zod = {
  email: text({ format: "email", pattern: "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$" }),
  uuid: text({ format: "uuid", pattern: "^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}|00000000-0000-0000-0000-000000000000|ffffffff-ffff-ffff-ffff-ffffffffffff)$" }),
  url: text({ format: "uri" }),
  datetime: text({ format: "date-time", pattern: "^(?:(?:\\d\\d[2468][048]|\\d\\d[13579][26]|\\d\\d0[48]|[02468][048]00|[13579][26]00)-02-29|\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|(?:02)-(?:0[1-9]|1\\d|2[0-8])))T(?:(?:[01]\\d|2[0-3]):[0-5]\\d(?::[0-5]\\d(?:\\.\\d+)?)?(?:Z))$" }),
  base64: text({ format: "base64", contentEncoding: "base64", pattern: "^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$" }),
  e164: text({ pattern: "^\\+[1-9]\\d{6,14}$" }),
  startsWith: text({ pattern: "^ab\"c.*" }),
  endsWith: text({ pattern: ".*x\\/y$" }),
  includes: text({ pattern: "héllo" }),
  lowercase: text({ pattern: "^[^A-Z]*$" }),
  cidr: text({ pattern: "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])\\/([0-9]|[1-2][0-9]|3[0-2])$" }),
  int: whole({ minimum: -9007199254740991, maximum: 9007199254740991 }),
  record: { type: "object", propertyNames: text({ pattern: "^k" }), additionalProperties: { type: "number" } },
  "record of an enum": { type: "object", propertyNames: text({ enum: ["a", "b"] }), additionalProperties: { type: "number" }, required: ["a", "b"] },
};

// One or several schemas by keyword.
const schemas = {
  type: [{ type: ["string", "null", "integer", "boolean", "number"] }, {}, { type: "array" }, { type: "object" }],
  const: [{ const: { a: [1, "é\n\"", null] } }],
  enum: [{ enum: ["a", "ab", 1, 12, null, { b: [] }] }],
  anyOf: [{ anyOf: [text({ maxLength: 3 }), { const: "abcdef" }, whole(), { type: "array", items: { type: "null" } }] }],
  oneOf: [{ oneOf: [object({ k: { const: "a" }, x: whole() }, { required: ["k"] }), object({ k: { const: "b" }, y: text() }, { required: ["k"] })], discriminator: { propertyName: "k" } }],
  allOf: [
    { allOf: [text({ maxLength: 2 })] },
    text({ allOf: [{ pattern: "^a" }, { pattern: "b$" }], maxLength: 5 }),
    { allOf: [object({ a: whole({ minimum: 3 }) }, { required: ["a"] }), object({ b: text(), a: { maximum: 9 } }, { required: ["b"] })] },
  ],
  $ref: [{ $ref: "#/$defs/tree", $defs: { tree: object({ v: whole(), next: { anyOf: [{ $ref: "#/$defs/tree" }, { type: "null" }] } }, { required: ["v", "next"], ...closed }) } }],
  properties: [object({ a: whole(), 'b"\\/': text(), "ü": { type: "null" } }, { required: ['b"\\/'] })],
  required: [object({ a: whole() }, { required: ["a", "z"] })],
  additionalProperties: [{ type: "object", additionalProperties: whole() }, { type: "object", ...closed }],
  patternProperties: [
    { type: "object", patternProperties: { "^n_": whole(), "_s$": text() }, ...closed },
    { type: "object", patternProperties: { "^n_": whole() }, additionalProperties: { type: "null" } },
    object({ a: whole() }, { patternProperties: { "^b": text() }, required: ["bc"], ...closed }),
  ],
  propertyNames: [
    { type: "object", propertyNames: { pattern: "^[a-z]{1,4}$", minLength: 2 }, additionalProperties: whole() },
    { type: "object", propertyNames: { enum: ["x", "y", "z"] }, additionalProperties: whole(), minProperties: 2 },
    object({ ab: whole(), cd: whole() }, { propertyNames: { pattern: "^a" } }),
  ],
  minProperties: [
    object({ a: whole(), b: whole(), c: whole(), d: whole() }, { minProperties: 3, ...closed }),
    { type: "object", minProperties: 1 },
  ],
  maxProperties: [
    object({ a: whole(), b: whole(), c: whole(), d: whole() }, { maxProperties: 2, required: ["c"], ...closed }),
    { type: "object", additionalProperties: whole(), maxProperties: 2 },
  ],
  items: [{ type: "array", items: whole({ minimum: 3, maximum: 70 }) }],
  prefixItems: [{ type: "array", prefixItems: [whole(), text()], items: false, minItems: 1 }],
  minItems: [{ type: "array", items: { type: "boolean" }, minItems: 3 }],
  maxItems: [{ type: "array", items: { type: "boolean" }, maxItems: 2 }],
  minLength: [text({ minLength: 5 }), text({ minLength: 3, pattern: "^a" })],
  maxLength: [text({ maxLength: 4 }), text({ maxLength: 6, pattern: "b$" }), text({ format: "email", maxLength: 254 }), text({ format: "hostname", maxLength: 12 })],
  minimum: [whole({ minimum: 17 }), { type: "number", minimum: -2.5 }],
  maximum: [whole({ maximum: -3 }), { type: "number", maximum: 12.75, minimum: 1 }],
  exclusiveMinimum: [whole({ exclusiveMinimum: 9, maximum: 120 }), { type: "number", exclusiveMinimum: 0 }],
  exclusiveMaximum: [whole({ exclusiveMaximum: 100, minimum: 98 }), { type: "number", exclusiveMaximum: 1 }],
  multipleOf: [
    whole({ multipleOf: 7 }), whole({ multipleOf: 60, minimum: -500, maximum: 5000 }), whole({ multipleOf: 1000 }),
    { type: "number", multipleOf: 2.5 }, { type: "number", multipleOf: 0.01, minimum: 0, maximum: 500 },
    { type: "number", multipleOf: 4 }, whole({ multipleOf: 0.5 }),
  ],
  pattern: [
    text({ pattern: "^[A-Z]{2}-\\d{3,5}(?:-[a-z]+)?$" }), text({ pattern: "a|b" }), text({ pattern: "^(?:x|yy)+$|^z?$" }),
    text({ pattern: "\\d" }), text({ pattern: "^\\S+\\s\\W$" }), text({ pattern: "^[^\\d\\s]{3}$" }), text({ pattern: "^.{2,4}$" }),
    text({ pattern: "^(?=.*[A-Z])(?=.*\\d)[A-Za-z\\d]{8,12}$" }), text({ pattern: "^(?!foo|bar$)[a-z]{3,6}$" }),
    text({ pattern: "^[\\u0400-\\u04ff\\u{1F300}-\\u{1F5FF}]+$" }), text({ pattern: "^a(?!b)[a-c]*?$" }), text({ pattern: "\\$\\{[\\w.]+\\}" }),
    text({ pattern: "^\\x41[\\]\\\\\"]\\t?$" }), text({ pattern: "" }), text({ pattern: "^[\\s\\S]{3}$" }),
  ],
  format: ["date-time", "date", "time", "duration", "email", "uuid", "uri", "ipv4", "ipv6", "hostname"].map((format) => text({ format })),
  "format of numbers": [whole({ format: "int32" }), whole({ format: "int64" }), { type: "number", format: "double" }],
  nullable: [text({ nullable: true, maxLength: 2 }), object({ a: whole({ nullable: true }) }, { required: ["a"] })],
  contentEncoding: [text({ contentEncoding: "base64", contentMediaType: "image/png" })],
  "x-*": [whole({ "x-unit": "m", example: 3 })],
  ...Object.fromEntries(Object.entries(zod).map(([name, schema]) => [`zod: ${name}`, [schema]])),
};

for (const [keyword, list] of Object.entries(schemas)) {
  test(`${keyword}: ${count} documents of each of ${list.length} schemas are valid`, { timeout: 120_000 }, () => {
    const ajv = new Ajv({ strict: false, multipleOfPrecision: 9, validateFormats: true });
    addFormats(ajv);
    const orders = list.map((schema, i) => JSON.stringify({ schema, count, seed: i + 1 })).join("\n") + "\n";
    const run = spawnSync(program, { input: orders, maxBuffer: 2 ** 28 });
    assert.equal(run.status, 0, run.stderr.toString());
    const lines = run.stdout.toString("utf8").split("\n");
    assert.equal(lines.pop(), "");
    let at = 0;
    for (const schema of list) {
      const validate = ajv.compile(schema);
      const seen = new Set();
      for (let i = 0; i < count; i++, at++) {
        const line = lines[at];
        assert.ok(line !== undefined && !line.startsWith("refused: "), `${JSON.stringify(schema)}: ${line}`);
        const value = JSON.parse(line);
        assert.ok(validate(value), `${JSON.stringify(schema)} admits no ${line}: ${JSON.stringify(validate.errors)}`);
        seen.add(line);
      }
      assert.ok(seen.size > 0);
    }
    assert.equal(at, lines.length);
  });
}
