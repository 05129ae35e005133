import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { answerTo, type PulledBody } from "../../../../router/http/server/ready_response.ts";
import { Drain } from "../../../../router/http/gate/drain.ts";
import { RequestScope, ScopedBody } from "../../../../router/http/gate/request_scope.ts";
import { Metrics } from "../../../../router/http/metrics/metrics.ts";
import { callerAddress } from "../../../../router/http/gate/caller.ts";
import { fc, often } from "../../../properties.ts";
import { type Answers, FakeClient, post } from "./fake_client.ts";

const echo: Answers = async (request) => new Response(await request.text());
const GET = "GET /x HTTP/1.1\r\nHost: here\r\n\r\n";
/** The head of answers at the virtual clock's beginning. */
const DATE = /date: [^\r]+\r\n/g;

function withoutDates(text: string): string {
  return text.replace(DATE, "");
}

/** An answer of our own kind, which is sent piece by piece as they are pushed. */
function pushed() {
  const waiting: ((piece: IteratorResult<Uint8Array, void>) => void)[] = [];
  const pieces: IteratorResult<Uint8Array, void>[] = [];
  const state = { left: false, taken: 0, fail: (_: unknown) => {} };
  const hand = () => {
    while (waiting.length > 0 && pieces.length > 0) {
      state.taken++;
      waiting.shift()!(pieces.shift()!);
    }
  };
  return {
    state,
    push(text: string | undefined) {
      pieces.push(
        text === undefined ? { done: true, value: undefined } : { done: false, value: Buffer.from(text) },
      );
      hand();
    },
    body: {
      pass: (
        take: (piece: IteratorResult<Uint8Array, unknown>) => void,
        fail: (error: unknown) => void,
      ) =>
        new Promise<void>((resolve) => {
          state.fail = (error) => {
            fail(error);
            resolve();
          };
          waiting.push((piece) => {
            take(piece);
            resolve();
          });
          hand();
        }),
      leave: () => void (state.left = true),
      asStream: () => new ReadableStream<Uint8Array>(),
    },
  };
}

test("a whole answer says its length, and the connection goes on", async () => {
  const client = new FakeClient((request) =>
    answerTo(request, { status: 200, headers: { "x-a": "1" }, body: Buffer.from(request.url) })
  );
  const first = await client.send(GET);
  assert.equal(withoutDates(first), "HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: 13\r\n\r\nhttp://here/x");
  assert.match(first, /date: Tue, 14 Nov 2023 22:13:20 GMT\r\n/);
  const second = await client.send(GET);
  assert.equal(second, first + first);
  assert.equal(client.isFinished, false);
});

test("answers of the runtime's kind come with their length, streams in chunks as they are made", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const client = new FakeClient((request) => {
    if (request.method === "POST") return new Response("all");
    return new Response(
      new ReadableStream<Uint8Array>({
        async start(controller) {
          controller.enqueue(Buffer.from("one"));
          await promise;
          controller.enqueue(Buffer.from("two!"));
          controller.close();
        },
      }),
    );
  });
  assert.match(await client.send(post("{}")), /content-length: 3\r\n\r\nall$/);
  assert.match(await client.send(GET), /transfer-encoding: chunked\r\n\r\n3\r\none\r\n$/);
  resolve();
  await client.settle();
  assert.match(client.received, /\r\n\r\n3\r\none\r\n4\r\ntwo!\r\n0\r\n\r\n$/);
});

test("an answer without a body, and one to HEAD, is no more than a head", async () => {
  const statuses = [204, 304, 200];
  const client = new FakeClient((request) => {
    const status = statuses.shift() ?? 500;
    return answerTo(request, { status, headers: {}, body: status === 200 ? Buffer.from("text") : undefined });
  });
  const received = await client.send(GET + GET + GET.replace("GET", "HEAD"));
  assert.equal(
    withoutDates(received),
    "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 Not Modified\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
  );
});

test("however a request arrives, its body is the same, and the next one is read behind it", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.string({ minLength: 1, maxLength: 40 }), { minLength: 1, maxLength: 4 }),
      fc.boolean(),
      fc.array(fc.nat(400), { maxLength: 12 }),
      async (bodies, chunked, cuts) => {
        const client = new FakeClient(echo);
        const sent = bodies.map((body) => {
          if (!chunked) return post(body);
          const size = Buffer.byteLength(body).toString(16);
          return `POST /e HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${size}\r\n${body}\r\n0\r\n\r\n`;
        }).join("");
        const bytes = Buffer.from(sent);
        const places = [0, ...cuts.map((cut) => cut % bytes.length), bytes.length].sort((a, b) => a - b);
        for (let i = 1; i < places.length; i++) await client.send(bytes.subarray(places[i - 1], places[i]));
        await client.settle();
        const texts = Buffer.from(client.received, "latin1").toString().split(/HTTP\/1\.1 200 OK\r\n/).slice(
          1,
        );
        assert.deepEqual(texts.map((text) => text.slice(text.indexOf("\r\n\r\n") + 4)), bodies);
      },
    ),
    { numRuns: often(60) },
  );
});

test("requests that come together are answered one after the other, in their order", async () => {
  const answers: (() => void)[] = [];
  const client = new FakeClient((request) =>
    new Promise((resolve) => answers.push(() => resolve(new Response(request.url))))
  );
  await client.send(GET.replace("/x", "/1") + GET.replace("/x", "/2"));
  assert.equal(answers.length, 1);
  answers[0]!();
  await client.settle();
  assert.equal(answers.length, 2);
  answers[1]!();
  await client.settle();
  assert.match(client.received, /http:\/\/here\/1HTTP.*http:\/\/here\/2$/s);
});

test("a client that asks whether to send its body is told when somebody wants it", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const client = new FakeClient(async (request) => {
    await promise;
    return new Response(await request.text());
  });
  const [head, body] = post("text", "Expect: 100-continue\r\n").split(/(?<=\r\n\r\n)/);
  assert.equal(await client.send(head!), "");
  resolve();
  await client.settle();
  assert.equal(client.received, "HTTP/1.1 100 Continue\r\n\r\n");
  assert.match(await client.send(body!), /200 OK\r\n.*\r\n\r\ntext$/s);
  assert.equal(client.isFinished, false);
});

test("a refused body that the client still holds back ends the connection: what comes next cannot be told", async () => {
  const client = new FakeClient(() => new Response("no", { status: 413 }));
  const [head] = post("text", "Expect: 100-continue\r\n").split(/(?<=\r\n\r\n)/);
  assert.match(await client.send(head!), /^HTTP\/1\.1 413 .*connection: close\r\n\r\nno$/s);
  assert.equal(client.isFinished, true);
});

test("a client that says that it would wait and sends all the same keeps its connection, read or not", async () => {
  const client = new FakeClient((request) => new Response(request.method, { status: 401 }));
  const bytes = post("text", "Expect: 100-continue\r\n");
  await client.send(bytes.slice(0, -2));
  assert.match(client.received, /^HTTP\/1\.1 401 .*POST$/s);
  await client.send(bytes.slice(-2) + bytes);
  await client.send(GET.replace("Host", "Expect: 100-continue\r\nHost"));
  assert.match(client.received, /POSTHTTP.*POSTHTTP.*GET$/s);
  assert.doesNotMatch(client.received, /connection: close|100 Continue/);
  assert.equal(client.isFinished, false);
});

test("an answer before the body's end reaches the client, the rest is read and forgotten, and the next one counts", async () => {
  const client = new FakeClient((request) => new Response(request.method, { status: 413 }));
  const request = post("x".repeat(1000));
  await client.send(request.slice(0, 200));
  assert.match(client.received, /413/);
  assert.equal(client.isClosed, false);
  await client.send(request.slice(200) + GET);
  assert.match(client.received, /POSTHTTP\/1\.1 413.*GET$/s);
});

test("a client that sends on and on behind its answer is cut off, by bytes and by time", async () => {
  const head = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n";
  const endless = new FakeClient(() => new Response("no", { status: 413 }));
  await endless.send(head);
  const part = Buffer.alloc(1024 * 1024);
  // More than any body may have by default, all of which most clients send before they read that it is too long.
  for (let i = 0; i < 100; i++) await endless.send(part);
  assert.equal(endless.isClosed, false);
  for (let i = 0; i < 200 && !endless.isClosed; i++) await endless.send(part);
  assert.equal(endless.isClosed, true);
  const slow = new FakeClient(() => new Response("no", { status: 413 }));
  await slow.send(head);
  await slow.settle(29_900);
  assert.equal(slow.isClosed, false);
  await slow.settle(200);
  assert.equal(slow.isClosed && slow.isForgotten, true);
});

test("what is no request is a 400 that says why, and ends the connection", async () => {
  const bad: [string, number, RegExp][] = [
    ["NONSENSE\r\n\r\n", 400, /cannot be read/],
    ["GET /x HTTP/1.1\r\n\r\n", 400, /names its host/],
    ["GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, /two hosts/],
    ["GET /x HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, /no URL/],
    ["GET /x HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, /no URL/],
    ["CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400, /no proxy/],
    ["POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400, /./],
    ["POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", 400, /./],
    ["POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400, /./],
    [
      "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\nContent-Length: 3\r\n\r\nabc",
      400,
      /where it ends/,
    ],
    ["POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 400, /where it ends/],
    [
      "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
      400,
      /./,
    ],
    ["POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501, /"chunked" alone/],
    ["GET /x HTTP/2.0\r\nHost: a\r\n\r\n", 505, /neither 1\.1 nor 1\.0/],
    ["GET /x HTTP/0.9\r\nHost: a\r\n\r\n", 505, /neither 1\.1 nor 1\.0/],
    ["POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc", 400, /./],
    ["GET /x HTTP/1.1\r\nHost : a\r\n\r\n", 400, /./],
    ["GET /x HTTP/1.1\nHost: a\n\n", 400, /./],
    [`GET /x HTTP/1.1\r\nHost: a\r\nX: ${"y".repeat(70_000)}\r\n\r\n`, 431, /exceeds 65536 bytes/],
    [`GET /${"y".repeat(70_000)} HTTP/1.1\r\nHost: a\r\n\r\n`, 431, /exceeds/],
    ["\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, /./],
  ];
  for (const [bytes, status, problem] of bad) {
    let asked = 0;
    const client = new FakeClient(() => {
      asked++;
      return new Response("?");
    });
    const received = await client.send(Buffer.from(bytes, "latin1"));
    assert.ok(received.startsWith(`HTTP/1.1 ${status} `), `${bytes.slice(0, 60)}: ${received}`);
    const { error } = JSON.parse(received.slice(received.indexOf("\r\n\r\n") + 4));
    assert.match(error.message, problem);
    assert.equal(error.code, "invalid_http");
    assert.equal(client.isFinished, true);
    assert.equal(asked, 0, bytes);
    // Whatever follows is no request any more.
    assert.equal(await client.send(GET), received);
    await client.settle(5_000);
    assert.equal(client.isForgotten, true);
  }
});

test("trailers that are not allowed are refused with their own request, not with the next one", async () => {
  const urls: string[] = [];
  const client = new FakeClient((request) => {
    urls.push(request.url);
    return new Response("?");
  });
  const head = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
  await client.send(`${head}Host: b\r\nX-A: 1\r\n\r\n`);
  assert.match(client.received, /200 OK/);
  assert.match(await client.send(`${head}Host: b\r\nHost: c\r\n\r\n`), /400 Bad Request\r\n.*two hosts/s);
  assert.equal(client.isFinished, true);
  assert.deepEqual(urls, ["http://a/x"]);
});

test("a body whose chunks are none breaks off for those who read it", async () => {
  const reads: string[] = [];
  const client = new FakeClient(async (request) => {
    try {
      return new Response(await request.text());
    } catch (error) {
      reads.push(String(error));
      return new Response("broken", { status: 400 });
    }
  });
  await client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  await client.send("zz\r\n");
  assert.equal(reads.length, 1);
  assert.match(client.received, /^HTTP\/1\.1 400 /);
  assert.equal(client.isFinished, true);
});

test("who still reads a body when its request has been answered hears that no more comes", async () => {
  const reads: string[] = [];
  const client = new FakeClient((request) => {
    request.text().then(() => reads.push("whole"), (error) => reads.push(String(error)));
    return new Response("no", { status: 413 });
  });
  const request = post("x".repeat(1000));
  await client.send(request.slice(0, 200));
  assert.match(reads.join(), /closed before the body was complete/);
  await client.send(request.slice(200) + GET);
  assert.equal(client.received.split("HTTP/1.1 413 ").length - 1, 2);
});

test("when the client leaves, the request's signal aborts, and what is sent is left", async () => {
  const { body, push, state } = pushed();
  const gone: unknown[] = [];
  const client = new FakeClient((request) => {
    request.signal.addEventListener("abort", () => gone.push(request.signal.reason));
    return answerTo(request, { status: 200, headers: {}, body });
  });
  await client.send(GET);
  push("one");
  await client.settle();
  assert.match(client.received, /3\r\none\r\n$/);
  await client.leave();
  assert.equal(gone.length, 1);
  assert.equal(state.left, true);
  assert.equal(client.isForgotten, true);
  const { received } = client;
  push("two");
  await client.settle();
  assert.equal(client.received, received);
});

test("an answer that comes when its client has gone is left", async () => {
  const { body, state } = pushed();
  const answer = Promise.withResolvers<Response>();
  let asked: Request | undefined;
  const client = new FakeClient((request) => {
    asked = request;
    return answer.promise;
  });
  await client.send(GET);
  await client.leave();
  answer.resolve(answerTo(asked!, { status: 200, headers: {}, body }));
  await client.settle();
  assert.equal(state.left, true);
  assert.equal(client.received, "");
});

test("a client that leaves before a stream's first piece is sent nothing more, and nothing waits for it", async () => {
  let cancelled = false;
  const client = new FakeClient(() =>
    new Response(new ReadableStream<Uint8Array>({ cancel: () => void (cancelled = true) }))
  );
  const sent = client.send(GET);
  // The answer is there, and its first piece is waited for.
  await Promise.resolve();
  client.clock.timer(0, () => client.connection.destroy());
  await sent;
  assert.equal(cancelled && client.isForgotten, true);
  assert.equal(client.received, "");
  assert.equal(client.clock.pendingTimers, 0);
});

test("a client that takes nothing has the next piece wait, and loses nothing", async () => {
  const { body, push, state } = pushed();
  const client = new FakeClient((request) => answerTo(request, { status: 200, headers: {}, body }));
  await client.send(GET);
  client.room = 10;
  for (let i = 0; i < 50; i++) {
    push(`piece ${i}`);
    await client.settle();
  }
  const { taken } = state;
  assert.ok(taken < 4, `${taken} pieces were taken from a client that takes none`);
  push(undefined);
  await client.drain();
  const chunks = [...client.received.matchAll(/\r\n(piece \d+)(?=\r\n)/g)].map((match) => match[1]);
  assert.deepEqual(chunks, Array.from({ length: 50 }, (_, i) => `piece ${i}`));
  assert.match(client.received, /\r\n0\r\n\r\n$/);
});

test("a body that nobody reads has its client wait, until it is read", async () => {
  const wanted = Promise.withResolvers<void>();
  const client = new FakeClient(async (request) => {
    await wanted.promise;
    let bytes = 0;
    for await (const chunk of request.body!) bytes += chunk.length;
    return new Response(String(bytes));
  });
  const body = "x".repeat(1_000_000);
  const bytes = post(body);
  await client.send(bytes.slice(0, 400_000));
  assert.equal(client.isPaused, true);
  wanted.resolve();
  await client.settle();
  assert.equal(client.isPaused, false);
  await client.send(bytes.slice(400_000));
  assert.match(client.received, /\r\n\r\n1000000$/);
});

test("a long body that came whole and that nobody read does not keep the next request from being read", async () => {
  const client = new FakeClient(async () => {
    await Promise.resolve();
    return new Response("no", { status: 401 });
  });
  assert.match(await client.send(post("x".repeat(400_000))), /^HTTP\/1\.1 401 /);
  assert.equal(client.isPaused, false);
});

test("a body is there once: who reads it again hears so, and not that it is empty", async () => {
  const client = new FakeClient(async (request) => {
    const texts = [request.text(), request.text()];
    texts.push(texts[0]!.then(() => request.text()));
    const settled = await Promise.allSettled(texts);
    return new Response(settled.map((read) => read.status === "fulfilled" ? read.value : "-").join());
  });
  const bytes = post("all");
  await client.send(bytes.slice(0, -1), bytes.slice(-1));
  assert.match(client.received, /all,-,-$/);
});

test("a client that pipelines more than it is answered waits", async () => {
  const client = new FakeClient(() => new Promise(() => {}));
  await client.send(GET);
  for (let i = 0; i < 3_000 && !client.isPaused; i++) await client.send(GET);
  assert.equal(client.isPaused, true);
});

test("a client that asks on and on and reads no answer is not asked for more, and gets all answers once it reads", async () => {
  let asked = 0;
  const client = new FakeClient((request) => {
    asked++;
    return answerTo(request, { status: 200, headers: {}, body: Buffer.alloc(10_000, "x") });
  });
  client.room = 0;
  // All in one read, in which nothing is sent yet, and one by one.
  await client.send(GET.repeat(500));
  assert.ok(asked < 120, `${asked} answers wait for a client that takes none`);
  let sent = 500;
  for (; sent < 5_000 && !client.isPaused; sent++) await client.send(GET);
  assert.ok(asked < 120, `${asked} answers wait for a client that takes none`);
  assert.equal(client.isPaused, true);
  while (asked < sent) await client.drain();
  await client.drain();
  assert.equal(client.received.split("HTTP/1.1 200 OK").length - 1, sent);
  assert.equal(client.isPaused, false);
});

test("however many requests come together, all that are answered at once are answered", async () => {
  const client = new FakeClient((request) =>
    answerTo(request, { status: 204, headers: {}, body: undefined })
  );
  const count = 30_000;
  await client.send("GET / HTTP/1.1\r\nHost:a\r\n\r\n".repeat(count));
  assert.equal(client.received.split("HTTP/1.1 204 ").length - 1, count);
  assert.equal(client.isClosed, false);
});

test("a stream that never waits is sent as the client takes it", async () => {
  let made = 0;
  const client = new FakeClient(() =>
    new Response(
      new ReadableStream<Uint8Array>({
        pull(controller) {
          if (++made > 2_000) controller.close();
          else controller.enqueue(Buffer.alloc(10_000, "x"));
        },
      }),
    )
  );
  client.room = 0;
  await client.send(GET);
  assert.ok(made < 120, `${made} pieces were taken for a client that takes none`);
  while (made <= 2_000) await client.drain();
  await client.drain();
  assert.match(client.received, /\r\n0\r\n\r\n$/);
  assert.ok(client.received.length > 20_000_000);
});

test("a client that waits and leaves is noticed, and one that stays fills no memory", async () => {
  const rest = Buffer.alloc(1024 * 1024, "x");
  const head = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n";
  // Behind its request, and within it.
  for (const first of [GET, head]) {
    let aborted = false;
    const client = new FakeClient((request) => {
      request.signal.addEventListener("abort", () => aborted = true);
      return new Promise(() => {});
    });
    await client.send(first, rest);
    assert.equal(client.isPaused, true);
    await client.settle(6_000);
    // The kernel tells of its end only now.
    assert.equal(client.isPaused, false);
    await client.leave("half");
    assert.equal(aborted && client.isForgotten, true);
    assert.equal(client.clock.pendingTimers, 0);
    const staying = new FakeClient(() => new Promise(() => {}));
    await staying.send(first);
    let sent = 0;
    for (let i = 0; i < 100; i++) {
      for (; !staying.isPaused; sent++) await staying.send(rest);
      await staying.settle(6_000);
    }
    assert.ok(sent < 12, `${sent} MB are kept of a client that waits`);
  }
});

test("clients of HTTP/1.0 read up to the end, and keep their connection when they ask for it", async () => {
  const { body, push } = pushed();
  const client = new FakeClient((request) =>
    request.url.endsWith("/x")
      ? answerTo(request, { status: 200, headers: {}, body })
      : answerTo(request, { status: 200, headers: {}, body: Buffer.from("all") })
  );
  const kept = await client.send("GET /y HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  assert.equal(
    withoutDates(kept),
    "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: keep-alive\r\n\r\nall",
  );
  await client.send("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  push("one");
  push(undefined);
  await client.settle();
  assert.match(client.received, /HTTP\/1\.1 200 OK\r\n(?:date[^\r]*\r\n)\r\none$/);
  assert.equal(client.isFinished, true);
});

test("an answer that says that the connection closes closes it, as a client that says so does", async () => {
  const draining = new FakeClient((request) =>
    answerTo(request, { status: 503, headers: { connection: "close" }, body: undefined })
  );
  assert.match(await draining.send(GET), /content-length: 0\r\nconnection: close\r\n\r\n$/);
  assert.equal(draining.isFinished, true);
  const client = new FakeClient(echo);
  assert.match(await client.send(post("a", "Connection: close\r\n")), /connection: close\r\n\r\na$/);
  assert.equal(client.isFinished, true);
});

test("a head that does not come to its end within a minute ends its connection; a quiet connection stays", async () => {
  const client = new FakeClient(echo);
  await client.settle(3_600_000);
  assert.equal(client.isClosed, false);
  await client.send("GET /x HT");
  await client.settle(30_000);
  await client.send("TP/1.1\r\n");
  await client.settle(29_000);
  assert.equal(client.isClosed, false);
  await client.settle(1_000);
  assert.equal(client.isClosed, true);
});

test("a client that sends nothing more of its body for a minute hears so; one that is slow, or made to wait, does not", async () => {
  let asked = 0;
  const outcomes: unknown[] = [];
  const answers: Answers = async (request) => {
    asked++;
    return new Response(await request.text().catch((error) => void outcomes.push(error)));
  };
  const client = new FakeClient(answers);
  await client.send(post("text").slice(0, -2));
  await client.settle(59_000);
  await client.send("x");
  await client.settle(59_000);
  assert.equal(client.received, "");
  const received = await client.settle(1_000).then(() => client.received);
  assert.match(
    received,
    /^HTTP\/1\.1 408 Request Timeout\r\n[^]*connection: close[^]*nothing more of its body came for 60 s/,
  );
  assert.match(received, /"code":"request_timeout"/);
  assert.deepEqual([client.isFinished, asked, outcomes.length], [true, 1, 1]);
  const held = new FakeClient(() => new Promise(() => {}));
  await held.send(
    "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n",
    Buffer.alloc(1024 * 1024),
  );
  const asking = new FakeClient(() => new Promise(() => {}));
  await asking.send("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  const whole = new FakeClient(() => new Promise(() => {}));
  await whole.send(post("a").slice(0, -1), "a");
  for (const one of [held, asking, whole]) {
    await one.settle(600_000);
    assert.deepEqual([one.received, one.isClosed], ["", false]);
  }
});

test("a stream that fails and ends with its connection resets that: its client takes it for no end", async () => {
  const { body, push, state } = pushed();
  const client = new FakeClient((request) => answerTo(request, { status: 200, headers: {}, body }));
  await client.send("GET /x HTTP/1.0\r\n\r\n");
  push("one");
  await client.settle();
  state.fail(new Error("broken"));
  await client.settle();
  assert.deepEqual([client.isReset, client.isFinished, client.isForgotten], [true, false, true]);
});

test("a stream that fails is cut off without its last chunk, so that no client takes it for whole", async () => {
  const { body, push, state } = pushed();
  const client = new FakeClient((request) => answerTo(request, { status: 200, headers: {}, body }));
  await client.send(GET);
  push("one");
  await client.settle();
  state.fail(new Error("broken"));
  await client.settle();
  assert.equal(client.isClosed, true);
  assert.doesNotMatch(client.received, /0\r\n\r\n$/);
});

test("a stream that fails counts as such, and not as one that its client has left", async () => {
  const outcomes: string[] = [];
  let closed = false;
  const client: FakeClient = new FakeClient((request) => {
    const { clock } = client;
    const drain = new Drain({ clock, timeoutMs: 1_000 });
    const scope = new RequestScope(request, "r", { clock, drain, metrics: new Metrics(clock) });
    scope.onEnd((outcome) => outcomes.push(outcome));
    const pieces = {
      next: () => Promise.reject(new Error("broken")),
      return: () => Promise.resolve(void (closed = true)),
    };
    return answerTo(request, { status: 200, headers: {}, body: new ScopedBody(pieces, scope) });
  });
  await client.send(GET);
  assert.deepEqual(outcomes, ["stream_error"]);
  assert.equal(client.isClosed && closed, true);
});

test("a stream that throws when it is asked for a piece fails alone: neither the program nor who writes beside it", async () => {
  for (const when of ["at first", "when the client takes more"]) {
    let asked = 0;
    const body: PulledBody = {
      pass: (take) => Promise.resolve().then(() => take({ done: false, value: Buffer.from("one") })),
      leave: () => {},
      asStream: () => new ReadableStream<Uint8Array>(),
    };
    const throwing: PulledBody = {
      ...body,
      pass: (take, fail) => {
        if (asked++ === 0 && when !== "at first") return body.pass(take, fail);
        throw new Error("a fault");
      },
    };
    const client = new FakeClient(async (request) => {
      await Promise.resolve();
      return answerTo(request, { status: 200, headers: {}, body: throwing });
    });
    client.room = when === "at first" ? Infinity : 0;
    await client.send(GET);
    if (when !== "at first") await client.drain();
    assert.equal(client.isClosed && client.isForgotten, true, when);
    assert.doesNotMatch(client.received, /0\r\n\r\n$/);
  }
});

test("when a server closes, quiet connections end at once and others behind their answer", async () => {
  const quiet = new FakeClient(echo);
  await quiet.send(post("a"));
  quiet.connection.close();
  assert.equal(quiet.isClosed && quiet.isForgotten, true);
  const answer = Promise.withResolvers<Response>();
  const busy = new FakeClient(() => answer.promise);
  await busy.send(GET);
  busy.connection.close();
  assert.equal(busy.isClosed, false);
  answer.resolve(new Response("late"));
  await busy.settle();
  assert.match(busy.received, /connection: close\r\n\r\nlate$/);
  assert.equal(busy.isFinished, true);
});

test("a request that came just before its server closes is answered", async () => {
  const client = new FakeClient(echo);
  const sent = client.send(post("late"));
  client.connection.close();
  assert.match(await sent, /connection: close\r\n\r\nlate$/);
  assert.equal(client.isFinished, true);
});

test("when a server closes, a client that sends no more or takes no more does not keep it for ever", async () => {
  const stalled = new FakeClient(echo);
  await stalled.send(post("text").slice(0, -1));
  const reading = new FakeClient((request) =>
    answerTo(request, { status: 200, headers: {}, body: Buffer.alloc(1_000, "x") })
  );
  reading.room = 10;
  await reading.send(GET);
  for (const client of [stalled, reading]) client.connection.close();
  for (let i = 0; i < 5; i++) {
    await reading.settle(25_000);
    await reading.drain(10);
  }
  assert.equal(reading.isForgotten, false);
  await stalled.settle(30_000);
  await reading.settle(60_000);
  assert.equal(stalled.isForgotten && reading.isForgotten, true);
  const slow = new FakeClient(() => new Promise(() => {}));
  await slow.send(GET);
  slow.connection.close();
  await slow.settle(600_000);
  assert.equal(slow.isForgotten, false);
});

test("a request tells its headers, its caller and its URL as the runtimes' own do", async () => {
  const seen: unknown[] = [];
  const client = new FakeClient((request, env) => {
    const { headers, method, url } = request;
    seen.push([method, url, headers.get("x-a"), headers.get("constructor"), callerAddress(env, request)]);
    return new Response(null);
  });
  await client.send("GET /a?b=%20c HTTP/1.1\r\nHost: here:1\r\nX-A: 1\r\nx-a: 2 \r\nConstructor: y\r\n\r\n");
  await client.send("GET /a/../b//c HTTP/1.1\r\nHost: here\r\n\r\n");
  await client.send("GET /a/%2e%2E/b%2e/%2e HTTP/1.1\r\nHost: here\r\n\r\n");
  await client.send("GET http://there/x HTTP/1.1\r\nHost: here\r\n\r\n");
  await client.send("OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\n\r\n");
  await client.send("GET /h2 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
  assert.deepEqual(seen, [
    ["GET", "http://here:1/a?b=%20c", "1, 2", "y", "10.0.0.1"],
    ["GET", "http://here/b//c", null, null, "10.0.0.1"],
    ["GET", "http://here/b%2e/", null, null, "10.0.0.1"],
    ["GET", "http://there/x", null, null, "10.0.0.1"],
    ["OPTIONS", "http://[::1]:80/*", null, null, "10.0.0.1"],
    ["GET", "http://a/h2", null, null, "10.0.0.1"],
  ]);
});

test("a copy of a request has its body, too, and hears of its client's end", async () => {
  const seen: unknown[] = [];
  const client = new FakeClient(async (request) => {
    const copy = request.clone();
    seen.push([copy.method, copy.url, copy.headers.get("x-a"), await copy.text(), await request.text()]);
    copy.signal.addEventListener("abort", () => seen.push("gone"));
    return await new Promise<Response>(() => {});
  });
  await client.send(post("text", "X-A: 1\r\n"));
  await client.leave();
  const bodiless = new FakeClient((request) => {
    seen.push(request.clone().body);
    return new Response();
  });
  await bodiless.send(GET + GET.replace("Host", "Content-Length: 0\r\nHost"));
  assert.deepEqual(seen, [["POST", "http://here/echo", "1", "text", "text"], "gone", null, null]);
});

test("a request that asks for another protocol is answered in this one, and so is what follows", async () => {
  const client = new FakeClient(echo);
  const upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n";
  const get = GET.replace("Host", `${upgrade}Host`);
  await client.send(get + post("one", upgrade) + post("two"), get, post("three", upgrade), post("four"));
  await client.send(get);
  const bodies = client.received.split("HTTP/1.1 200 OK").map((text) => text.split("\r\n\r\n")[1]);
  assert.deepEqual(bodies.slice(1), ["", "one", "two", "", "three", "four", ""]);
  assert.equal(client.isFinished, false);
});

test("a handler that throws is a 500, and the connection ends", async () => {
  const client = new FakeClient(() => {
    throw new Error("a fault");
  });
  assert.match(await client.send(GET), /^HTTP\/1\.1 500 /);
  assert.equal(client.isFinished, true);
});

test("a header that HTTP cannot carry is left out; Latin-1 arrives as it is", async () => {
  const client = new FakeClient((request) =>
    answerTo(request, {
      status: 200,
      headers: { "x-bad": "a\r\nx-evil: 1", "bad name": "1", "x-good": "é", "transfer-encoding": "chunked" },
      body: undefined,
    })
  );
  assert.equal(
    withoutDates(await client.send(GET)),
    "HTTP/1.1 200 OK\r\nx-good: é\r\ncontent-length: 0\r\n\r\n",
  );
});

test("a client that closes its side behind its request still gets an answer that was there at once", async () => {
  const client = new FakeClient((request) =>
    answerTo(request, { status: 200, headers: {}, body: Buffer.from("all") })
  );
  client.send(GET);
  await client.leave("half");
  assert.match(client.received, /all$/);
  assert.equal(client.isFinished, true);
  await client.leave();
  assert.equal(client.isForgotten, true);
});

test("a client that closes its side within its body still gets an answer that was there at once", async () => {
  const client = new FakeClient((request) =>
    answerTo(request, { status: 413, headers: {}, body: Buffer.from("all") })
  );
  client.send(post("text").slice(0, -1));
  await client.leave("half");
  assert.match(client.received, /all$/);
  assert.equal(client.isFinished, true);
  await client.leave();
  assert.equal(client.isForgotten, true);
});

test("the last answer of a connection waits for a client that takes it slowly", async () => {
  const client = new FakeClient((request) =>
    answerTo(request, { status: 200, headers: {}, body: Buffer.alloc(1_000_000, "x") })
  );
  client.room = 100;
  await client.send(GET.replace("Host", "Connection: close\r\nHost"));
  await client.settle(60_000);
  assert.equal(client.isClosed, false);
  await client.drain();
  assert.equal(client.received.length > 1_000_000 && client.isFinished, true);
  await client.settle(1_000);
  assert.equal(client.isClosed, true);
});
