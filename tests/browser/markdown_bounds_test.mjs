// What hostile answers may cost the page's Markdown, without a browser: node --test markdown_bounds_test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { blocksOf, htmlOf } from "../../web/shared/markdown.js";

const deepest = (tokens) => tokens.reduce((most, token) => Math.max(most, 1 + deepest(token.tokens ?? token.items ?? [])), 0);

test("blocks within each other end at a depth, and what lies deeper is there as it was written", () => {
  const tokens = blocksOf(`${">".repeat(2500)} end`);
  assert.ok(deepest(tokens) < 100);
  assert.match(htmlOf(tokens), /&gt;&gt;&gt; end/);
});

test("a text that is longer than emphasis is looked for in is shown as it is", () => {
  assert.equal(htmlOf(blocksOf(`**a** ${"b".repeat(9000)}`)), `<p>**a** ${"b".repeat(9000)}</p>\n`);
  assert.equal(htmlOf(blocksOf(`**a** ${"b".repeat(7000)}`)), `<p><strong>a</strong> ${"b".repeat(7000)}</p>\n`);
});

test("all texts together have a bound, behind which they are shown as they are", () => {
  const paragraph = `**a** ${"b".repeat(7000)}`;
  const bold = htmlOf(blocksOf(Array(200).fill(paragraph).join("\n\n"))).match(/<strong>/g).length;
  assert.ok(bold > 1 && bold < 20, `${bold} of 200`);
});

test("formulas are found where they are, and marks that nothing closes are text", () => {
  const kinds = (source) => blocksOf(source).filter((token) => token.type !== "space").map((token) => token.type);
  assert.deepEqual(kinds("before\n$$a$$\nafter"), ["paragraph", "blockMaths", "paragraph"]);
  assert.deepEqual(kinds("$$ a ".repeat(16000)), ["paragraph"]);
  assert.deepEqual(kinds("\\[ a ".repeat(16000)), ["paragraph"]);
});

test("a formula that begins within a line is a block where it ends one", () => {
  const kinds = (source) => blocksOf(source).filter((token) => token.type !== "space").map((token) => token.type);
  assert.deepEqual(kinds("so $$\na = b\n$$ \nafter"), ["paragraph", "blockMaths", "paragraph"]);
  assert.deepEqual(kinds("so \\[\na\n\\]"), ["paragraph", "blockMaths"]);
  assert.deepEqual(kinds(`so $$a ${"b".repeat(5000)}$$`), ["paragraph"], "it is too long");
  assert.deepEqual(kinds("a $$b$$ c"), ["paragraph"]);
});

// How often reading the blocks of a text asks a pattern. A paragraph is one question to each, however long it is.
function questionsOf(source) {
  const { exec } = RegExp.prototype;
  let count = 0;
  RegExp.prototype.exec = function counted(text) {
    count += 1;
    return exec.call(this, text);
  };
  try {
    blocksOf(source);
  } finally {
    RegExp.prototype.exec = exec;
  }
  return count;
}

test("no run of a sign costs more questions than its lines do", () => {
  const signs = [..."$\\`*_~[](){}<>#|!-+.=:&\"'^@/0 \t", "$$", "\\[", "\\]", "\\(", "\\)", "**", "~~", "![", "](", "<a", "</", "http://", "&#", "- ", "1. ", "> "];
  for (const sign of signs) {
    for (const run of [sign, `${sign}a`, `${sign} `, `a${sign}`, `${sign} a `]) {
      for (const end of ["", "\n"]) {
        for (const length of [16_000, 64_000]) {
          const line = run.repeat(end ? 20 : Math.ceil(length / run.length)) + end;
          const source = line.repeat(Math.ceil(length / line.length));
          const lines = source.split("\n").length;
          const questions = questionsOf(source);
          assert.ok(questions <= 400 * (lines + 1), `${JSON.stringify(run)} of ${length} in ${lines} lines: ${questions}`);
        }
      }
    }
  }
});

test("what cannot be written is shown as it was read", () => {
  const html = htmlOf([{ type: "paragraph", raw: "a <b>", get tokens() { throw new RangeError("stack"); } }]);
  assert.equal(html, '<div class="plain">a &lt;b&gt;</div>');
});
