import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type IncomingResponse,
  type OutgoingRequest,
  type Transport,
  TransportError,
  type TransportErrorCode,
} from "../../../base/transport.ts";
import { HANG_MS } from "../../until.ts";
import type { ScriptedServer, ServerScript } from "./scripted_server.ts";

/** How the contract reaches one kind of transport. */
export interface ContractHarness {
  readonly name: string;
  start(script: ServerScript): Promise<ScriptedServer & { readonly transport: Transport }>;
  /** A URL at which nobody listens. */
  nobody(): Promise<string>;
  /** False for the in-memory transport: no framing, no kept connections. */
  readonly sockets: boolean;
  /** Whether `TransportError.reusedSocket` is known. */
  readonly knowsReuse: boolean;
  /** Streams that must run at once. */
  readonly streams: number;
}

const decoder = new TextDecoder();
const never = () => new AbortController().signal;
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

const post = (url: string, body = "{}"): OutgoingRequest => ({
  method: "POST",
  url: `${url}/generate?x=1`,
  headers: { "content-type": "application/json", "x-test": "yes" },
  body,
});

async function text(response: IncomingResponse): Promise<string> {
  let all = "";
  const streaming = new TextDecoder();
  for await (const chunk of response.body) all += streaming.decode(chunk, { stream: true });
  return all + streaming.decode();
}

function fails(code: TransportErrorCode): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof TransportError, String(error));
    assert.equal(error.code, code, String(error.cause));
    return true;
  };
}

/** The tests that every transport passes. */
export function transportContract(harness: ContractHarness): void {
  const check = (
    what: string,
    script: ServerScript,
    run: (server: ScriptedServer & { readonly transport: Transport }) => Promise<void>,
  ) =>
    test(`${harness.name}: ${what}`, { timeout: HANG_MS }, async () => {
      const server = await harness.start(script);
      try {
        await run(server);
        await server.transport.close();
      } finally {
        await server.stop();
      }
    });

  check("the request arrives as given, the response as sent", (side) => {
    assert.equal(side.method, "POST");
    assert.equal(side.path, "/generate?x=1");
    assert.equal(side.headers["x-test"], "yes");
    assert.ok(!side.headers["accept-encoding"]?.includes("gzip"));
    side.head(201, { "content-type": "text/plain", "x-answer": "a b" });
    void side.write(`got ${side.body}`);
    side.end();
  }, async ({ transport, url, requests }) => {
    const response = await transport.send(post(url, '{"é":1}'), never());
    assert.equal(response.status, 201);
    assert.equal(response.headers["x-answer"], "a b");
    assert.equal(response.headers["content-type"], "text/plain");
    assert.equal(await text(response), 'got {"é":1}');
    assert.equal(requests(), 1);
  });

  check("a body given as bytes arrives as those bytes", (side) => {
    side.head(200);
    void side.write(side.body);
    side.end();
  }, async ({ transport, url }) => {
    const bytes = new TextEncoder().encode("bytes ✓");
    const response = await transport.send({ ...post(url), body: bytes }, never());
    assert.equal(await text(response), "bytes ✓");
  });

  {
    const go = Promise.withResolvers<void>();
    check("the head comes before the body, and chunks come one by one as they are sent", async (side) => {
      side.head(200);
      await go.promise;
      for (const word of ["one", "two", "three"]) {
        await side.write(word);
        await acknowledged.get(word)?.promise;
      }
      side.end();
    }, async ({ transport, url }) => {
      const response = await transport.send(post(url), never());
      assert.equal(response.status, 200);
      go.resolve();
      const seen: string[] = [];
      for await (const chunk of response.body) {
        const word = decoder.decode(chunk);
        seen.push(word);
        acknowledged.get(word)?.resolve();
      }
      assert.deepEqual(seen, ["one", "two", "three"]);
    });
    const acknowledged = new Map(
      ["one", "two", "three"].map((word) => [word, Promise.withResolvers<void>()]),
    );
  }

  {
    const total = 64 * 1024 * 1024;
    let sent = 0;
    check("a body that is read slowly holds back its sender", async (side) => {
      side.head(200);
      const piece = new Uint8Array(64 * 1024);
      for (sent = 0; sent < total; sent += piece.length) await side.write(piece);
      side.end();
    }, async ({ transport, url }) => {
      const response = await transport.send(post(url), never());
      for (let i = 0; i < 50; i++) await turn();
      let received = 0;
      let ahead = 0;
      for await (const chunk of response.body) {
        ahead = Math.max(ahead, sent - received);
        received += chunk.length;
        if (received % 8 === 0) await turn();
      }
      assert.equal(received, total);
      assert.ok(ahead < total / 2, `the sender was ${ahead} bytes ahead of its reader`);
    });
  }

  {
    const { promise: left, resolve: leave } = Promise.withResolvers<void>();
    const { promise: there, resolve: arrive } = Promise.withResolvers<void>();
    check("an abort before the head rejects with the signal's reason and closes the connection", (side) => {
      void side.gone.then(leave);
      arrive();
    }, async ({ transport, url }) => {
      const controller = new AbortController();
      const sending = transport.send(post(url), controller.signal);
      await there;
      const reason = new Error("enough");
      controller.abort(reason);
      await assert.rejects(sending, (error) => error === reason);
      await left;
    });
  }

  check("an aborted signal sends nothing", () => {}, async ({ transport, url, requests }) => {
    const reason = new Error("already");
    await assert.rejects(
      transport.send(post(url), AbortSignal.abort(reason)),
      (error) => error === reason,
    );
    assert.equal(requests(), 0);
  });

  {
    const { promise: left, resolve: leave } = Promise.withResolvers<void>();
    check("an abort in the body rejects a waiting read and closes the connection", (side) => {
      void side.gone.then(leave);
      side.head(200);
      void side.write("first");
    }, async ({ transport, url }) => {
      const controller = new AbortController();
      const response = await transport.send(post(url), controller.signal);
      const body = response.body[Symbol.asyncIterator]();
      assert.equal(decoder.decode((await body.next()).value), "first");
      const reading = body.next();
      const reason = new Error("enough");
      controller.abort(reason);
      await assert.rejects(reading, (error) => error === reason);
      assert.deepEqual(await body.next(), { done: true, value: undefined });
      await left;
    });
  }

  {
    const { promise: left, resolve: leave } = Promise.withResolvers<void>();
    check("an abort while nobody reads is seen by the next read", (side) => {
      void side.gone.then(leave);
      side.head(200);
    }, async ({ transport, url }) => {
      const controller = new AbortController();
      const response = await transport.send(post(url), controller.signal);
      controller.abort(new Error("enough"));
      await left;
      await assert.rejects(text(response), /enough/);
    });
  }

  {
    const { promise: left, resolve: leave } = Promise.withResolvers<void>();
    check("ending the iteration early closes the connection", (side) => {
      void side.gone.then(leave);
      side.head(200);
      void side.write("first");
    }, async ({ transport, url }) => {
      const response = await transport.send(post(url), never());
      for await (const chunk of response.body) {
        assert.equal(decoder.decode(chunk), "first");
        break;
      }
      await left;
      const body = response.body[Symbol.asyncIterator]();
      assert.equal((await body.next()).done, true);
    });
  }

  {
    const { promise: left, resolve: leave } = Promise.withResolvers<void>();
    check("a response that is dropped unread by `return` closes the connection", (side) => {
      void side.gone.then(leave);
      side.head(200);
    }, async ({ transport, url }) => {
      const response = await transport.send(post(url), never());
      await response.body[Symbol.asyncIterator]().return?.();
      await left;
    });
  }

  test(`${harness.name}: nobody listening is connect_failed`, { timeout: HANG_MS }, async () => {
    const server = await harness.start(() => {});
    const url = await harness.nobody();
    await assert.rejects(server.transport.send(post(url), never()), fails("connect_failed"));
    await server.stop();
  });

  check(
    "a connection that breaks before the head is reset_before_head",
    (side) => side.reset(),
    async ({ transport, url, requests }) => {
      await assert.rejects(transport.send(post(url), never()), fails("reset_before_head"));
      assert.equal(requests(), 1);
    },
  );

  {
    const { promise: read, resolve: wasRead } = Promise.withResolvers<void>();
    check("a connection that breaks in the body is reset_in_body, after what was received", async (side) => {
      side.head(200);
      await side.write("part");
      await read;
      side.reset();
    }, async ({ transport, url }) => {
      const response = await transport.send(post(url), never());
      const body = response.body[Symbol.asyncIterator]();
      assert.equal(decoder.decode((await body.next()).value), "part");
      wasRead();
      await assert.rejects(body.next(), fails("reset_in_body"));
    });
  }

  check("HEAD and 204 have a head and an empty body", (side) => {
    side.head(side.method === "HEAD" ? 200 : 204, side.method === "HEAD" ? { "content-length": "5" } : {});
    side.end();
  }, async ({ transport, url }) => {
    const head = await transport.send({ method: "HEAD", url, headers: {} }, never());
    assert.equal(head.status, 200);
    assert.equal(await text(head), "");
    const none = await transport.send({ method: "DELETE", url, headers: {} }, never());
    assert.equal(none.status, 204);
    assert.equal(await text(none), "");
  });

  check("heads of many kilobytes pass in both directions", (side) => {
    side.head(200, { "x-big": "b".repeat(12_000), "x-length": String(side.headers["x-in"]?.length) });
    side.end();
  }, async ({ transport, url }) => {
    const request = { ...post(url), headers: { "x-in": "a".repeat(30_000) } };
    const response = await transport.send(request, never());
    assert.equal(response.headers["x-big"]?.length, 12_000);
    assert.equal(response.headers["x-length"], "30000");
    assert.equal(await text(response), "");
  });

  {
    let running = 0;
    const all = Promise.withResolvers<void>();
    check(`${harness.streams} streams run at once`, async (side) => {
      side.head(200);
      await side.write("a");
      if (++running === harness.streams) all.resolve();
      await all.promise;
      await side.write("b");
      side.end();
    }, async ({ transport, url }) => {
      const texts: Promise<string>[] = [];
      while (texts.length < harness.streams) {
        const wave = Array.from(
          { length: Math.min(100, harness.streams - texts.length) },
          () => transport.send(post(url), never()),
        );
        for (const response of await Promise.all(wave)) texts.push(text(response));
      }
      assert.deepEqual(new Set(await Promise.all(texts)), new Set(["ab"]));
    });
  }

  {
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    check("close waits for exchanges in flight, and refuses new ones", async (side) => {
      side.head(200);
      await held;
      await side.write("late");
      side.end();
    }, async ({ transport, url }) => {
      const response = await transport.send(post(url), never());
      const order: string[] = [];
      const closing = transport.close().then(() => order.push("closed"));
      await assert.rejects(transport.send(post(url), never()), fails("connect_failed"));
      release();
      assert.equal(await text(response), "late");
      order.push("read");
      await closing;
      assert.equal(order.length, 2);
    });
  }

  if (!harness.sockets) return;

  check("a POST on a kept socket that dies is not sent again", (side) => {
    if (side.earlierOnConnection > 0) return side.reset();
    side.head(200);
    void side.write("ok");
    side.end();
  }, async ({ transport, url, requests }) => {
    assert.equal(await text(await transport.send(post(url), never())), "ok");
    await assert.rejects(transport.send(post(url), never()), (error) => {
      fails("reset_before_head")(error);
      if (harness.knowsReuse) assert.equal(error instanceof TransportError && error.reusedSocket, true);
      return true;
    });
    assert.equal(requests(), 2);
    assert.equal(await text(await transport.send(post(url), never())), "ok");
    assert.equal(requests(), 3);
  });

  {
    const closed: Promise<void>[] = [];
    check("a kept socket that the server closes while idle is not used again", (side) => {
      side.head(200);
      void side.write(String(side.earlierOnConnection));
      side.end();
      closed.push(side.gone);
      if (closed.length < 3) side.close();
    }, async ({ transport, url, requests }) => {
      for (let i = 0; i < 3; i++) {
        assert.equal(await text(await transport.send(post(url), never())), "0");
        if (i < 2) await closed[i];
      }
      assert.equal(requests(), 3);
    });
  }

  check("sockets are kept for later requests", (side) => {
    side.head(200);
    void side.write(String(side.earlierOnConnection));
    side.end();
  }, async ({ transport, url }) => {
    const seen: string[] = [];
    for (let i = 0; i < 4; i++) {
      seen.push(await text(await transport.send(post(url), never())));
      await turn();
    }
    assert.deepEqual(seen, ["0", "1", "2", "3"]);
  });

  check("`connection: close` is obeyed", (side) => {
    side.head(200, { connection: "close" });
    void side.write(String(side.earlierOnConnection));
    side.end();
    side.close();
  }, async ({ transport, url }) => {
    for (let i = 0; i < 3; i++) assert.equal(await text(await transport.send(post(url), never())), "0");
  });

  check("a body without length or chunks ends with the connection", (side) => {
    side.raw("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nto the end");
    side.close();
  }, async ({ transport, url }) => {
    assert.equal(await text(await transport.send(post(url), never())), "to the end");
  });

  check("a body shorter than its content-length is reset_in_body", (side) => {
    side.raw("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort");
    side.close();
  }, async ({ transport, url }) => {
    const response = await transport.send(post(url), never());
    await assert.rejects(text(response), fails("reset_in_body"));
  });

  check("an interim response is skipped, repeated headers are joined", (side) => {
    side.raw(
      "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-a: 1\r\nX-A: 2\r\n\r\nok",
    );
  }, async ({ transport, url }) => {
    const response = await transport.send(post(url), never());
    assert.equal(response.status, 200);
    assert.equal(response.headers["x-a"], "1, 2");
    assert.equal(await text(response), "ok");
  });

  check("bytes that are not HTTP are invalid_response", (side) => {
    side.raw("SSH-2.0-OpenSSH_9.2\r\n\r\n");
    side.close();
  }, async ({ transport, url }) => {
    await assert.rejects(transport.send(post(url), never()), fails("invalid_response"));
  });

  check("a redirect is handed on, not followed", (side) => {
    side.head(307, { location: "http://127.0.0.1:1/" });
    side.end();
  }, async ({ transport, url }) => {
    const response = await transport.send(post(url), never());
    assert.equal(response.status, 307);
    assert.equal(await text(response), "");
  });
}
