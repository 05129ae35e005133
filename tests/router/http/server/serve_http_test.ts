import assert from "node:assert/strict";
import http from "node:http";
import net from "node:net";
import { test } from "node:test";
import { serveHttp } from "../../../../router/http/server/serve_http.ts";
import type { RunEvent } from "../../../../router/moa/run/run.ts";
import { fakeApp, parseEvents, pushed, settle } from "../fakes.ts";

interface Answer {
  status: number;
  headers: http.IncomingHttpHeaders;
  response: http.IncomingMessage;
  request: http.ClientRequest;
}

/** One request over a real socket; resolves with the head. */
function send(
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
  onRequest?: (request: http.ClientRequest) => void,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method: "POST", agent: false, headers }, (response) => {
      resolve({ status: response.statusCode ?? 0, headers: response.headers, response, request });
    });
    onRequest?.(request);
    request.on("error", reject);
    request.end(typeof body === "string" ? body : JSON.stringify(body));
  });
}

async function textOf(answer: Answer): Promise<string> {
  let text = "";
  for await (const chunk of answer.response.setEncoding("utf8")) text += chunk;
  return text;
}

const CHAT = { model: "moa", messages: [{ role: "user", content: "Hi" }] };

test("over a real port: streams come event by event, uncompressed, and the server shuts down", async () => {
  const { script, events } = pushed();
  const { app } = fakeApp({ script });
  const server = serveHttp(app, { host: "127.0.0.1", port: 0 });
  assert.match(server.url, /^http:\/\/127\.0\.0\.1:\d+$/);
  events.tryPush({ type: "delta", index: 0, delta: { type: "delta", text: "one" } });
  const answer = await send(`${server.url}/v1/chat/completions`, { ...CHAT, stream: true }, {
    "accept-encoding": "gzip, br",
  });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers["content-type"], "text/event-stream");
  assert.equal(answer.headers["content-encoding"], undefined);
  let text = "";
  for await (const chunk of answer.response.setEncoding("utf8")) {
    const before = text;
    text += chunk;
    // The rest is made only after the first event has arrived.
    if (!before.includes('"one"') && text.includes('"one"')) {
      events.tryPush({ type: "end", index: 0, finishReason: "stop" });
      events.close();
    }
  }
  assert.equal(parseEvents(text).at(-1), "[DONE]");
  await server.shutdown();
});

test("over a real port: a client that closes its socket cancels the run, before and inside the stream", async () => {
  for (const when of ["before", "inside"] as const) {
    const { script, events } = pushed();
    const started = Promise.withResolvers<void>();
    const { app, moa } = fakeApp({
      script: (input) => {
        started.resolve();
        return script(input);
      },
    });
    const server = serveHttp(app, { host: "127.0.0.1", port: 0 });
    const leave = Promise.withResolvers<http.ClientRequest>();
    const head = send(`${server.url}/v1/chat/completions`, { ...CHAT, stream: true }, {}, leave.resolve);
    head.catch(() => {});
    await started.promise;
    if (when === "inside") {
      events.tryPush({ type: "delta", index: 0, delta: { type: "delta", text: "one" } } satisfies RunEvent);
      const answer = await head;
      await new Promise((resolve) => answer.response.once("data", resolve));
    }
    (await leave.promise).destroy();
    await moa.run.ended;
    assert.equal(moa.run.state, "cancelled");
    await server.shutdown();
  }
});

test("over a real port: a body above the limit is a 413 before it is sent, errors are JSON", async () => {
  const { app } = fakeApp({ config: { models: {}, server: { max_body_bytes: 1000 } } });
  const server = serveHttp(app, { host: "127.0.0.1", port: 0 });
  const answer = await send(`${server.url}/v1/chat/completions`, "x".repeat(5000));
  assert.equal(answer.status, 413);
  assert.match(await textOf(answer), /"code":"body_too_large"/);
  const bad = await send(`${server.url}/v1/chat/completions`, "{");
  assert.equal(bad.status, 400);
  assert.equal(bad.headers["content-type"], "application/json");
  await textOf(bad);
  await settle();
  await server.shutdown();
});

test("a port that a server has is refused to a second one", async () => {
  const { app } = fakeApp();
  const server = serveHttp(app, { host: "127.0.0.1", port: 0 });
  const port = Number(new URL(server.url).port);
  try {
    // Bun shares ports between production servers unless told not to.
    assert.throws(() => serveHttp(app, { host: "127.0.0.1", port }), { code: "EADDRINUSE" });
  } finally {
    await server.shutdown();
  }
});

test("over a real port: a target whose host is none is a 400 that says so", async () => {
  const { app } = fakeApp();
  const server = serveHttp(app, { host: "127.0.0.1", port: 0 });
  const socket = net.connect(Number(new URL(server.url).port), "127.0.0.1");
  socket.write("GET http://else[[er/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  let received = "";
  for await (const chunk of socket.setEncoding("utf8")) received += chunk;
  assert.match(received, /^HTTP\/1\.1 400 /);
  assert.match(received, /"code":"invalid_http"/);
  await server.shutdown();
});
