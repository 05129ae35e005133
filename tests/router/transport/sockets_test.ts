import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import net from "node:net";
import { test } from "node:test";
import tls from "node:tls";
import { VirtualClock } from "../../../base/clock.ts";
import { TransportError, type TransportErrorCode } from "../../../base/transport.ts";
import { KEEP_ALIVE_MS } from "../../../router/transport/worker_socket.ts";
import { SocketTransport, type SocketTransportOptions } from "../../../router/transport/sockets.ts";
import { stillThere } from "../../garbage.ts";
import { HANG_MS, until } from "../../until.ts";
import { transportContract } from "./contract.ts";
import {
  type ScriptedServer,
  type ServerScript,
  type ServerSide,
  startNetServer,
} from "./scripted_server.ts";

transportContract({
  name: "sockets",
  sockets: true,
  knowsReuse: true,
  streams: 600,
  start: async (script) => ({ ...await startNetServer(script), transport: new SocketTransport() }),
  // A port below those that are given to whoever asks for one.
  nobody: () => Promise.resolve("http://127.0.0.1:1"),
});

const never = () => new AbortController().signal;
const post = (url: string, lane: "generation" | "control" = "generation") =>
  ({ method: "POST", url, headers: {}, body: "{}", lane }) as const;

async function text({ body }: { readonly body: AsyncIterable<Uint8Array> }): Promise<string> {
  let all = "";
  const decoder = new TextDecoder();
  for await (const chunk of body) all += decoder.decode(chunk, { stream: true });
  return all;
}

function failure(code: TransportErrorCode, more: (error: TransportError) => boolean = () => true) {
  return (error: unknown) => {
    assert.ok(error instanceof TransportError, String(error));
    assert.equal(error.code, code, String(error.cause));
    assert.ok(more(error), String(error.cause));
    return true;
  };
}

interface Stage extends ScriptedServer {
  readonly transport: SocketTransport;
}

function check(
  what: string,
  script: ServerScript,
  run: (stage: Stage) => Promise<void>,
  options?: SocketTransportOptions,
): void {
  test(`sockets: ${what}`, { timeout: HANG_MS }, async () => {
    const server = await startNetServer(script);
    const transport = new SocketTransport(options);
    try {
      await run({ ...server, transport });
      await transport.close();
    } finally {
      await server.stop();
    }
  });
}

{
  const streams: ServerSide[] = [];
  const all = Promise.withResolvers<void>();
  check("300 open streams do not hold up a control request", (side) => {
    if (side.path === "/health") {
      side.head(200);
      return side.end();
    }
    side.head(200);
    if (streams.push(side) === 300) all.resolve();
  }, async ({ transport, url }) => {
    const texts = Array.from({ length: 300 }, async () => text(await transport.send(post(url), never())));
    await all.promise;
    assert.equal(await text(await transport.send(post(`${url}/health`, "control"), never())), "");
    for (const side of streams) {
      void side.write("x");
      side.end();
    }
    assert.deepEqual(new Set(await Promise.all(texts)), new Set(["x"]));
  });
}

{
  const arrived: ServerSide[] = [];
  const both = Promise.withResolvers<void>();
  const third = Promise.withResolvers<void>();
  check(
    "generations wait for a place in the order of their coming; control has places of its own",
    (side) => {
      if (side.path === "/health") {
        side.head(200);
        return side.end();
      }
      arrived.push(side);
      if (arrived.length === 2) both.resolve();
      if (arrived.length === 3) third.resolve();
    },
    async ({ transport, url, requests }) => {
      const first = ["/1", "/2"].map((path) => transport.send(post(url + path), never()));
      await both.promise;
      const controller = new AbortController();
      const left = transport.send(post(`${url}/3`), controller.signal);
      const last = transport.send(post(`${url}/4`), never());
      assert.equal(await text(await transport.send(post(`${url}/health`, "control"), never())), "");
      assert.equal(requests(), 3);
      const reason = new Error("enough");
      controller.abort(reason);
      await assert.rejects(left, (error) => error === reason);
      arrived[0]!.head(200);
      arrived[0]!.end();
      await third.promise;
      assert.deepEqual(arrived.map(({ path }) => path).sort(), ["/1", "/2", "/4"]);
      for (const side of arrived.slice(1)) {
        side.head(200);
        side.end();
      }
      for (const sending of [...first, last]) assert.equal(await text(await sending), "");
    },
    { atOnce: { generation: 2, control: 1 } },
  );
}

check(
  "a name and a password in a URL are sent, unless there is a key; errors do not show the password",
  (side) => {
    side.head(200);
    void side.write(side.headers.authorization ?? "none");
    side.end();
  },
  async ({ transport, url }) => {
    const named = url.replace("//", "//me:p%40ss@");
    const basic = `Basic ${btoa("me:p@ss")}`;
    const keyed = { ...post(named), headers: { authorization: "Bearer key" } };
    assert.equal(await text(await transport.send(post(named), never())), basic);
    assert.equal(await text(await transport.send(keyed, never())), "Bearer key");
    assert.equal(await text(await transport.send(post(url), never())), "none");
    const lost = new TransportError("reset_before_head", named);
    assert.equal(lost.message, `Request to ${url.replace("//", "//me:***@")} failed: reset before head`);
  },
);

check("a kept socket that breaks inside an answer's head is not called unseen", (side) => {
  if (side.earlierOnConnection === 0) {
    side.head(200);
    return side.end();
  }
  side.raw("HTTP/1.1 200 O");
  side.close();
}, async ({ transport, url }) => {
  assert.equal(await text(await transport.send(post(url), never())), "");
  await assert.rejects(
    transport.send(post(url), never()),
    failure("reset_before_head", ({ reusedSocket }) => !reusedSocket),
  );
});

check(
  "a half-closed connection without an answer is reset_before_head",
  (side) => side.close(),
  async (stage) => {
    await assert.rejects(stage.transport.send(post(stage.url), never()), failure("reset_before_head"));
  },
);

check("an answer that comes byte by byte is whole", async (side) => {
  const answer =
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nx-a: 1 2\r\ntransfer-encoding: chunked\r\n\r\n" +
    "5;ext=1\r\nhello\r\n1\r\n!\r\n0\r\ntrailer: left out\r\n\r\n";
  for (const byte of answer) {
    side.raw(byte);
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}, async ({ transport, url }) => {
  for (let i = 0; i < 2; i++) {
    const response = await transport.send(post(url), never());
    assert.equal(response.headers["x-a"], "1 2");
    assert.equal(response.headers.trailer, undefined);
    assert.equal(await text(response), "hello!");
  }
});

const SMUGGLED = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwrong";

const rest = Promise.withResolvers<void>();

check("a body that comes with its head is there at once, another one has to be read", async (side) => {
  const head = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
  if (side.path === "/whole") return side.raw(`${head}hello`);
  if (side.path === "/reused") return side.raw(`HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n`);
  side.raw(`${head}hel`);
  await rest.promise;
  side.raw("lo");
}, async ({ transport, url }) => {
  const whole = await transport.send(post(`${url}/whole`), never());
  assert.equal(new TextDecoder().decode(whole.takeWhole?.()), "hello");
  assert.equal(await text(whole), "");
  const empty = await transport.send(post(`${url}/reused`), never());
  assert.equal(empty.takeWhole?.()?.length, 0);
  const late = await transport.send(post(`${url}/late`), never());
  assert.equal(late.takeWhole?.(), undefined);
  rest.resolve();
  assert.equal(await text(late), "hello");
});

check("bytes behind an answer reach no later request", (side) => {
  if (side.path === "/second") {
    side.head(200);
    void side.write(`${side.earlierOnConnection} earlier`);
    return side.end();
  }
  side.raw(`HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok${SMUGGLED}`);
}, async ({ transport, url }) => {
  assert.equal(await text(await transport.send(post(url), never())), "ok");
  assert.equal(await text(await transport.send(post(`${url}/second`), never())), "0 earlier");
});

check("the body of a 204 reaches no later request", (side) => {
  if (side.path !== "/second") side.raw("HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n");
  else {
    side.head(200);
    void side.write(`${side.earlierOnConnection} earlier`);
    side.end();
  }
}, async ({ transport, url }) => {
  assert.equal(await text(await transport.send(post(url), never())), "");
  assert.equal(await text(await transport.send(post(`${url}/second`), never())), "0 earlier");
});

for (
  const [what, head] of [
    ["a folded header", "HTTP/1.1 200 OK\r\nx-a: 1\r\n folded: 2\r\ncontent-length: 0\r\n\r\n"],
    ["a header without a colon", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"],
    ["two lengths", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"],
    [
      "a length and chunks",
      "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ["a negative length", "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"],
    ["a NUL in a header", "HTTP/1.1 200 OK\r\nx-a: \x00\r\n\r\n"],
    ["another protocol", "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"],
    ["a head of 200 kB", `HTTP/1.1 200 OK\r\n${`x-a: ${"b".repeat(1_000)}\r\n`.repeat(200)}\r\n`],
    ["interim heads without end", "HTTP/1.1 103 Early Hints\r\nx-hint: abcdefghij\r\n\r\n".repeat(10_000)],
  ] as const
) {
  check(`${what} is invalid_response`, (side) => side.raw(head), async ({ transport, url }) => {
    await assert.rejects(transport.send(post(url), never()), failure("invalid_response"));
  });
}

for (
  const [what, body] of [
    ["a chunk's size that is no number", "2\r\nok\r\nzz\r\n"],
    ["a chunk longer than its size", "2\r\nokay\r\n0\r\n\r\n"],
  ] as const
) {
  check(`${what} is reset_in_body`, (side) => {
    side.raw(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${body}`);
  }, async ({ transport, url }) => {
    const response = await transport.send(post(url), never());
    await assert.rejects(text(response), failure("reset_in_body"));
  });
}

check("chunks that end without their last one are reset_in_body", (side) => {
  side.raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n");
  side.close();
}, async ({ transport, url }) => {
  const body = (await transport.send(post(url), never())).body[Symbol.asyncIterator]();
  assert.equal(new TextDecoder().decode((await body.next()).value), "ok");
  await assert.rejects(body.next(), failure("reset_in_body"));
});

check("a header that would end itself is refused, nothing is sent", () => {}, async (stage) => {
  const request = { ...post(stage.url), headers: { "x-a": "1\r\nx-b: 2" } };
  await assert.rejects(stage.transport.send(request, never()), failure("connect_failed"));
  assert.equal(stage.requests(), 0);
});

check("bodies in other alphabets and of megabytes arrive whole", (side) => {
  side.head(200);
  void side.write(`${side.body.length} ${side.headers["x-a"]}`);
  side.end();
}, async ({ transport, url }) => {
  for (const body of ["✓é", "é".repeat(3_000_000)]) {
    for (const sent of [body, new TextEncoder().encode(body)]) {
      const response = await transport.send(
        { ...post(url), headers: { "x-a": "\u00fc" }, body: sent },
        never(),
      );
      assert.equal(await text(response), `${body.length} ü`);
    }
  }
});

test(
  "sockets: a long body is written as the worker takes it, and not copied before",
  { timeout: HANG_MS },
  async () => {
    const LENGTH = 64 * 1024 * 1024;
    const begun = Promise.withResolvers<net.Socket>();
    let bytes = 0;
    let last: number | undefined;
    const server = net.createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => {
        socket.pause();
        begun.resolve(socket);
      });
      socket.on("data", (data) => {
        if (typeof data === "string") return;
        bytes += data.length;
        last = data.at(-1);
        if (bytes > LENGTH) socket.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
      });
    });
    const url = await listening(server, "127.0.0.1");
    const transport = new SocketTransport();
    const body = new Uint8Array(LENGTH);
    const sent = transport.send({ ...post(url), body }, never());
    const socket = await begun.promise;
    body[LENGTH - 1] = 42;
    socket.resume();
    assert.equal((await sent).status, 200);
    assert.equal(last, 42);
    await transport.close();
    server.close();
  },
);

test(
  "sockets: an answer that comes before the request has left ends its socket",
  { timeout: HANG_MS },
  async () => {
    let connections = 0;
    const server = net.createServer((socket) => {
      connections++;
      socket.on("error", () => {});
      socket.once("data", () => {
        socket.pause();
        socket.write("HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno");
      });
    });
    const url = await listening(server, "127.0.0.1");
    const transport = new SocketTransport();
    for (let i = 0; i < 2; i++) {
      const response = await transport.send(
        { ...post(url), body: new Uint8Array(64 * 1024 * 1024) },
        never(),
      );
      assert.equal(response.status, 413);
      assert.equal(await text(response), "no");
    }
    assert.equal(connections, 2);
    await transport.close();
    server.close();
  },
);

{
  const sides: ServerSide[] = [];
  const clock = new VirtualClock();
  check("idle sockets are closed after three seconds", (side) => {
    sides.push(side);
    side.head(200);
    side.end();
  }, async ({ transport, url }) => {
    await text(await transport.send(post(url), never()));
    await clock.advance(2_000);
    await text(await transport.send(post(url), never()));
    assert.equal(sides[1]?.earlierOnConnection, 1);
    await clock.advance(4_900);
    await text(await transport.send(post(url), never()));
    assert.equal(sides[2]?.earlierOnConnection, 2);
    await clock.advance(8_000);
    await sides[2]?.gone;
  }, { clock });
}

/** A server that takes connections and says nothing; resolves `gone` when its client closes one. */
async function silentServer() {
  const came = Promise.withResolvers<void>();
  const gone = Promise.withResolvers<void>();
  const server = net.createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", () => came.resolve());
    socket.on("close", () => gone.resolve());
  });
  const url = (await listening(server, "127.0.0.1")).replace("http:", "https:");
  return { url, came: came.promise, gone: gone.promise, stop: () => server.close() };
}

test("sockets: a connection that takes too long is connect_failed", { timeout: HANG_MS }, async () => {
  const server = await silentServer();
  const clock = new VirtualClock();
  const transport = new SocketTransport({ clock });
  const sending = transport.send({ ...post(server.url), connectTimeoutMs: 700 }, never());
  sending.catch(() => {});
  await server.came;
  await clock.advance(800);
  await assert.rejects(sending, failure("connect_failed", ({ cause }) => /700 ms/.test(String(cause))));
  await server.gone;
  await transport.close();
  server.stop();
});

test("sockets: an abort while connecting closes the socket", { timeout: HANG_MS }, async () => {
  const server = await silentServer();
  const transport = new SocketTransport();
  const controller = new AbortController();
  const sending = transport.send(post(server.url), controller.signal);
  sending.catch(() => {});
  await server.came;
  const reason = new Error("enough");
  controller.abort(reason);
  await assert.rejects(sending, (error) => error === reason);
  await server.gone;
  await transport.close();
  server.stop();
});

test(
  "sockets: TLS trusts what it is told to, for the name in the certificate",
  { timeout: HANG_MS },
  async () => {
    const file = (name: string) =>
      readFileSync(new URL(`../../fixtures/tls/localhost.${name}`, import.meta.url), "utf8");
    const server = tls.createServer({ key: file("key"), cert: file("crt") }, (socket) => {
      socket.on("error", () => {});
      socket.on("data", () => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret"));
    });
    server.on("tlsClientError", () => {});
    const url = (await listening(server, "localhost")).replace(/http:.*:/, "https://localhost:");
    const trusting = new SocketTransport({ ca: file("crt") });
    const wary = new SocketTransport();
    const port = Number(new URL(url).port);
    for (let i = 0; i < 2; i++) {
      assert.equal(await text(await trusting.send(post(url), never())), "secret");
    }
    assert.ok([1, undefined].includes(keptAlive(port)), "a kept connection of TLS");
    await assert.rejects(wary.send(post(url), never()), failure("connect_failed"));
    const address = server.address();
    const ip = typeof address === "object" && address?.family === "IPv6" ? "[::1]" : "127.0.0.1";
    await assert.rejects(
      trusting.send(post(url.replace("localhost", ip)), never()),
      failure("connect_failed"),
    );
    await trusting.close();
    await wary.close();
    server.close();
  },
);

/** Connections to a port that the system asks after when they are silent, by Linux's own table; undefined elsewhere. */
function keptAlive(port: number): number | undefined {
  const tables = ["/proc/net/tcp", "/proc/net/tcp6"].filter((path) => existsSync(path));
  if (tables.length === 0) return undefined;
  const hex = port.toString(16).toUpperCase().padStart(4, "0");
  // Remote address, state 01 (established), queues, timer 02 (keep-alive) and when it is due, in 1/100 s.
  const row = new RegExp(`:${hex} 01 \\S+ 02:([0-9A-F]+) `);
  return tables.flatMap((path) => readFileSync(path, "utf8").split("\n")).filter((line) => {
    const due = row.exec(line)?.[1];
    return due !== undefined && parseInt(due, 16) * 10 <= KEEP_ALIVE_MS;
  }).length;
}

check("the system asks whether a silent worker still has the connection", (side) => side.head(200), async (
  { transport, url },
) => {
  const controller = new AbortController();
  const { body } = await transport.send(post(url), controller.signal);
  const port = Number(new URL(url).port);
  await until("the timer runs", () => [1, undefined].includes(keptAlive(port)));
  controller.abort(new Error("enough"));
  await assert.rejects(text({ body }), /enough/);
});

test("sockets: IPv6 addresses", { timeout: HANG_MS }, async (context) => {
  const server = net.createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (data) => {
      const host = /host: (\S+)/.exec(String(data))?.[1] ?? "";
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${host.length}\r\n\r\n${host}`);
    });
  });
  const url = await listening(server, "::1").catch(() => undefined);
  if (url === undefined) return context.skip("this machine has no IPv6");
  const transport = new SocketTransport();
  assert.equal(await text(await transport.send(post(url), never())), url.slice("http://".length));
  await transport.close();
  server.close();
});

function listening(server: net.Server, host: string): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, host, () => {
      const address = server.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      resolve(`http://${host.includes(":") ? `[${host}]` : host}:${port}`);
    });
  });
}

check("a body that was sent is not kept while its answer lasts", (side) => side.head(200), async (stage) => {
  const bodies: WeakRef<object>[] = [];
  const ask = () => {
    const body = new Uint8Array(10_000);
    bodies.push(new WeakRef(body));
    return stage.transport.send({ ...post(`${stage.url}/`), body }, never());
  };
  const answers = [];
  for (let i = 0; i < 30; i++) answers.push(await ask());
  // A collector that reads the stack may take a number for the address of one.
  assert.ok(await stillThere(bodies) <= 3);
  for (const { body } of answers) await body[Symbol.asyncIterator]().return?.();
});
