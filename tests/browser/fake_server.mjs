// A server that speaks the routes which the chat page needs, without a model: it serves web/dist as the program does, and
// answers by script. A message chooses what happens:
//   "stream N at R"   N tokens of Markdown at R a second, "paragraph N at R" and "code N at R" in one block
//   "think"           thinking, then an answer
//   "cut"             the connection breaks in the middle, at cut()
//   "fail"            an error before the first token
//   "markdown"        headings, a list, a table, code, maths, and HTML that must stay text
//   "slow"            a token every 100 ms until it is stopped
//   "drafted"         an echo, with three of four drafted tokens accepted
//   anything else     an echo
import { createServer } from "node:http";
import { existsSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const DIST = fileURLToPath(new URL("../../web/dist", import.meta.url));
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; connect-src 'self'; " +
  "img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".woff2": "font/woff2", ".txt": "text/plain" };

export const MARKDOWN = `# A heading

Some *text* with \`code\` and $a^2 + b^2$ and a [link](https://example.org/).

- one
- two

| name | value |
|---|---:|
| x | 1 |

\`\`\`python
def double(x):
    return 2 * x
\`\`\`

$$\\int_0^1 x\\,dx = \\tfrac12$$

<img src=x onerror="document.title='broken in'"><script>document.title='broken in'</script>

![spy](https://example.org/spy.png)
`;

function* markdownTokens(number) {
  const words = ["state ", "of ", "the ", "model ", "is ", "**constant** ", "in ", "size, ", "`slot` ", "by ", "slot. "];
  for (let i = 0; i < number; ++i) {
    const at = i % 240;
    if (at === 0) yield "\n\n## Part\n\n";
    else if (at === 60) yield "\n\n```cpp\n";
    else if (at > 60 && at < 120) yield at % 10 === 0 ? ";\n" : `x${at} `;
    else if (at === 120) yield "\n```\n\n";
    else if (at > 120 && at < 160 && at % 8 === 1) yield "\n- ";
    else if (at === 160) yield "\n\n| a | b |\n|---|---|\n";
    else if (at > 160 && at < 180) yield "| 1 | 2 |\n";
    else if (at === 180) yield "\nwith $x_1 + y$ ";
    else yield words[i % words.length];
  }
}

function* blockTokens(kind, number) {
  if (kind === "code") yield "```text\n";
  for (let i = 1; i < number; ++i) yield kind === "code" && i % 12 === 0 ? "word\n" : `word${i % 7} `;
}

const readBody = async (request) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces).toString();
};
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// `options`: {password, models, sessions, template}. Resolves to {address, asked, close()}; `asked` has every generating request's body.
export async function startFakeServer(options = {}) {
  const asked = [];
  let breaks = () => {};
  const sessions = new Set(options.sessions ?? []);
  const stopped = new Set();
  const models = [...(options.models ?? ["fake-model", "other-model"])];
  let numbers = 0;

  const json = (response, value, status = 200, headers = {}) => {
    response.writeHead(status, { "Content-Type": "application/json", ...headers });
    response.end(JSON.stringify(value));
  };
  const fail = (response, status, message) => json(response, { error: { message, type: "x", param: null, code: null } }, status);

  async function answerChat(response, body) {
    asked.push(body);
    const chat = body.messages !== undefined;
    const last = chat ? body.messages.at(-1).content : body.prompt;
    if (last.startsWith("fail")) return fail(response, 503, "Request queue full");
    const id = `req-${++numbers}`;
    response.writeHead(200, { "Content-Type": "text/event-stream; charset=utf-8", "X-Request-Id": id });
    const write = (delta, more = {}) => {
      const choice = chat ? { index: 0, delta, logprobs: null, finish_reason: null, ...more } : { index: 0, text: delta.content ?? "", finish_reason: null, ...more };
      if (body.logprobs && delta.content) {
        choice.logprobs = { content: [{ token: delta.content, logprob: -0.1, top_logprobs: [{ token: delta.content, logprob: -0.1 }, { token: "other", logprob: -2.5 }] }] };
      }
      return response.write(`data: ${JSON.stringify({ id, object: "x", choices: [choice], usage: null })}\n\n`);
    };
    let tokens = 0;
    const say = (text) => { tokens += 1; write({ content: text }); };
    const [, kind, number, rate] = /^(stream|paragraph|code) (\d+) at (\d+)/.exec(last) ?? [];
    if (chat) write({ role: "assistant", content: "" });
    if (kind) {
      const source = kind === "stream" ? markdownTokens(Number(number)) : blockTokens(kind, Number(number));
      const begun = performance.now();
      for (const token of source) {
        if (response.destroyed) return undefined;
        say(token);
        const due = begun + (tokens * 1000) / Number(rate);
        if (due - performance.now() > 8) await sleep(due - performance.now());
      }
    } else if (last.startsWith("think")) {
      for (const word of ["First ", "this, ", "then ", "that."]) { write({ reasoning_content: word }); await sleep(30); }
      say("So it is.");
    } else if (last.startsWith("cut")) {
      for (const word of ["This ", "is ", "not "]) say(word);
      // A browser throws away what it has not read of a connection that breaks.
      await new Promise((resolve) => { breaks = resolve; });
      return response.destroy();
    } else if (last.startsWith("markdown")) {
      for (const piece of MARKDOWN.match(/[\s\S]{1,7}/g)) { say(piece); await sleep(2); }
    } else if (last.startsWith("slow")) {
      while (!response.destroyed && !stopped.has(id)) { say(`word${tokens} `); await sleep(100); }
    } else {
      for (const word of `You said: ${chat ? last : "more"}`.match(/\S+\s*/g)) say(word);
    }
    if (body.session_id) sessions.add(body.session_id);
    write({}, { finish_reason: "stop" });
    const usage = { prompt_tokens: 30, completion_tokens: tokens, total_tokens: 30 + tokens };
    if (last.startsWith("drafted")) usage.completion_tokens_details = { accepted_prediction_tokens: 3, rejected_prediction_tokens: 1 };
    response.end(`data: ${JSON.stringify({ id, choices: [], usage })}\n\ndata: [DONE]\n\n`);
    return undefined;
  }

  async function answerBatch(response, body) {
    asked.push(body);
    response.writeHead(200, { "Content-Type": "text/event-stream", "X-Request-Id": `req-${++numbers}` });
    body.contents.forEach((prompt, index) => {
      const answer = `answer to ${/User: (.*)/.exec(prompt)?.[1] ?? prompt}`;
      response.write(`data: ${JSON.stringify({ choices: [{ index, delta: { content: answer } }] })}\n\n`);
      response.write(`data: ${JSON.stringify({ choices: [{ index, delta: { content: "" }, finish_reason: "stop" }] })}\n\n`);
    });
    response.end("data: [DONE]\n\n");
  }

  // A hub's repository in two files; "owner/slow" stays at a tenth of the second until its client leaves.
  async function answerPull(response, { model }) {
    asked.push({ pull: model });
    if (model === "owner/none") return fail(response, 404, "The hub has no such repository");
    response.writeHead(200, { "Content-Type": "application/x-ndjson" });
    const line = (value) => response.write(`${JSON.stringify(value)}\n`);
    const step = (file, completed, total) => line({ status: `pulling ${file}`, digest: "sha256:0", total, completed });
    line({ status: "pulling manifest" });
    step("vocab.txt", 10, 10);
    for (let part = 1; part <= 10; ++part) {
      step("weights.pth", part * 2 ** 20, 10 * 2 ** 20);
      await sleep(20);
      while (model === "owner/slow" && !response.destroyed) await sleep(20);
      if (response.destroyed) return asked.push({ left: model });
    }
    if (model === "owner/broken") line({ error: "the checksum is a; wanted b" });
    else line({ status: "success", model: "weights.pth" });
    return response.end();
  }

  // Chats as the program writes them for either template.
  function applyTemplate(response, { messages, add_generation_prompt: prompted = true }) {
    const marked = options.template === "g1h";
    const name = (role) => (role === "assistant" && marked ? "Bot" : role[0].toUpperCase() + role.slice(1));
    const turns = messages.map(({ role, content }) => (marked ? `${name(role)}✿${content}✿` : `${name(role)}: ${content}`));
    if (prompted) turns.push(marked ? "Bot✿<think></think>" : "Assistant:");
    json(response, { prompt: turns.join(marked ? "\n" : "\n\n"), stop: marked ? ["✿"] : ["\n\nUser:", "\nUser:"], pad_zero: marked });
  }

  const routes = {
    "POST /apply-template": applyTemplate,
    "POST /api/pull": answerPull,
    "POST /loadmodel": (response, body) => { asked.push({ load: body }); models.push(body.model_viewname); json(response, { status: "success" }); },
    "GET /v1/models": (response) => json(response, { object: "list", data: models.map((id) => ({ id, object: "model" })) }),
    "GET /v1/state/list": (response) => json(response, { object: "list", data: [] }),
    "POST /v1/chat/completions": answerChat,
    "POST /v1/completions": (response, body) => (body.echo ? json(response, { choices: [{ text: body.prompt, logprobs: {
      tokens: [...body.prompt.matchAll(/\S+\s*/g)].map((match) => match[0]), text_offset: [...body.prompt.matchAll(/\S+\s*/g)].map((match) => match.index),
      token_logprobs: [...body.prompt.matchAll(/\S+\s*/g)].map((_, i) => (i === 0 ? null : -0.5)), top_logprobs: [...body.prompt.matchAll(/\S+\s*/g)].map(() => ({ other: -2 })),
    } }] }) : answerChat(response, body)),
    "POST /v1/batch/completions": answerBatch,
    "POST /v1/server/stop": (response, body) => { stopped.add(body.request_id); json(response, { ok: true, stopped: true }); },
    "POST /state/delete": (response) => json(response, { status: "success" }),
  };

  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, "http://x");
    const file = pathname === "/" ? "chat.html" : pathname.startsWith("/assets/") ? pathname.slice(8) : null;
    if (file && existsSync(join(DIST, file))) {
      response.writeHead(200, { "Content-Type": TYPES[extname(file)], "Content-Security-Policy": POLICY, "Cache-Control": "no-cache" });
      return response.end(readFileSync(join(DIST, file)));
    }
    const body = await readBody(request);
    const open = pathname === "/v1/models";
    if (options.password && !open && request.headers.authorization !== `Bearer ${options.password}`) return fail(response, 401, "Unauthorized: invalid or missing password");
    const fork = /^\/v1\/sessions\/(.+)\/fork$/.exec(pathname);
    if (fork) {
      const known = sessions.has(decodeURIComponent(fork[1]));
      if (known) sessions.add(JSON.parse(body).session_id);
      return known ? json(response, { object: "session", tokens: 20 }) : fail(response, 404, "The session does not exist");
    }
    const route = routes[`${request.method} ${pathname}`];
    return route ? route(response, body ? JSON.parse(body) : {}) : fail(response, 404, "Not Found");
  });
  server.on("connection", (socket) => socket.setNoDelay(true));
  await new Promise((resolve) => server.listen(options.port ?? 0, "127.0.0.1", resolve));
  return {
    address: `http://127.0.0.1:${server.address().port}/`, asked, sessions, cut: () => breaks(),
    close: () => new Promise((resolve) => { server.closeAllConnections(); server.close(resolve); }),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = await startFakeServer({ port: Number(process.argv[2] ?? 0) });
  console.log(server.address);
}
