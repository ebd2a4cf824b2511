// What the tests of all clients share: the server, its key, and a proxy that refuses the first request.
import http from "node:http";
import { test } from "node:test";

export const base = process.env.BASE_URL;
if (!base) throw new Error("BASE_URL is not set; wanted http://host:port of a running Fulmar server");
export const apiKey = process.env.API_KEY || "none";
export const guarded = Boolean(process.env.API_KEY);  // the server asks for the key
export const model = "fulmar-demo";
export const question = "What is 12 + 30?";

export const on = (name, ...rest) => test(name, { timeout: 60_000, ...(rest.length > 1 ? rest[0] : {}) }, rest.at(-1));

// Answers the first POST with 503 and passes everything else on, so that a client's retry is seen.
export async function flakyProxy() {
  let refused = 0;
  const proxy = http.createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", async () => {
      if (request.method === "POST" && refused === 0) {
        refused++;
        response.writeHead(503, { "Content-Type": "application/json", "retry-after-ms": "10", "Retry-After": "0" });
        return response.end('{"error":{"message":"busy","type":"unavailable_error","param":null,"code":"queue_full"}}');
      }
      const { host, connection, "content-length": _, ...headers } = request.headers;
      const body = Buffer.concat(parts);
      const answer = await fetch(base + request.url,
        { method: request.method, headers, body: body.length ? body : undefined });
      response.writeHead(answer.status, { "Content-Type": answer.headers.get("content-type") ?? "application/json" });
      response.end(Buffer.from(await answer.arrayBuffer()));
    });
  });
  await new Promise((listening) => proxy.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${proxy.address().port}`,
    refused: () => refused,
    close: () => proxy.closeAllConnections() ?? proxy.close(),
  };
}

async function cancelledRequests() {
  const { stats } = await (await fetch(`${base}/v1/queue/status`)).json();
  return stats.cancelled_requests;
}

// Runs `abort`, which breaks an answer off, and waits until the server has noticed.
export async function expectCancelled(abort) {
  const before = await cancelledRequests();
  await abort();
  for (let wait = 0; (await cancelledRequests()) === before; ++wait) {
    if (wait === 100) throw new Error("the server has not noticed the abort");
    await new Promise((wake) => setTimeout(wake, 50));
  }
}
