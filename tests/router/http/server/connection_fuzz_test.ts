import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { Random } from "../../../../base/random.ts";
import { answerTo, type PulledBody } from "../../../../router/http/server/ready_response.ts";
import { often, SEED } from "../../../properties.ts";
import { FakeClient } from "./fake_client.ts";

const BODY_BYTES = [0, 5, 1_000, 70_000, 300_000];
const PART_BYTES = [1, 7, 100, 5_000, 100_000, 500_000];
const BODILESS = [204, 304];

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly bytes: string;
}

/** Handlers of every kind, which wait now and then until they are let go on. */
class Handlers {
  /** Bodies that were neither made to their end nor left. */
  readonly open = new Set<object>();
  readonly #random: Random;
  #waiting: (() => void)[] = [];

  constructor(random: Random) {
    this.#random = random;
  }

  get areWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  goOn(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  readonly answer = (request: Request): Response | Promise<Response> => {
    const text = `[${new URL(request.url).pathname}]`;
    if (this.#random.next() < 0.2) return whole(request, 200, text);
    return this.#later(request, text);
  };

  async #later(request: Request, text: string): Promise<Response> {
    await this.#maybeWait();
    const kind = this.#random.int(7);
    if (kind === 0) return answerTo(request, { status: 200, headers: {}, body: this.#pulled(text) });
    if (kind === 1) {
      const answer = answerTo(request, { status: 200, headers: {}, body: this.#pulled(text) });
      answer.headers.set("x-touched", "1");
      return answer;
    }
    if (kind === 2) return new Response(`${text}${(await request.text()).length}`);
    if (kind === 3) return new Response(`${text}${await this.#lengthOf(request)}`);
    if (kind === 4) return new Response(text, { status: 401 });
    if (kind === 5) return new Response(text + "z".repeat(this.#random.int(100_000)));
    const status = this.#random.pick([200, ...BODILESS]);
    return whole(request, status, status === 200 ? text : undefined);
  }

  async #lengthOf(request: Request): Promise<number> {
    let length = 0;
    for await (const chunk of request.body ?? []) {
      length += chunk.length;
      await this.#maybeWait();
    }
    return length;
  }

  #pulled(text: string): PulledBody {
    const body = {};
    this.open.add(body);
    let left = 1 + this.#random.int(4);
    const next = async (): Promise<IteratorResult<Uint8Array, void>> => {
      await this.#maybeWait();
      if (left-- > 0) return { done: false, value: Buffer.from(text + "x".repeat(this.#random.int(60))) };
      this.open.delete(body);
      return { done: true, value: undefined };
    };
    const leave = () => void this.open.delete(body);
    const asStream = () =>
      new ReadableStream<Uint8Array>({
        pull: async (controller) => {
          const piece = await next();
          if (piece.done === true) controller.close();
          else controller.enqueue(piece.value);
        },
        cancel: leave,
      }, { highWaterMark: 0 });
    return { pass: (take, fail) => next().then(take, fail), leave, asStream };
  }

  #maybeWait(): Promise<void> {
    if (this.#random.next() < 0.7) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

function whole(request: Request, status: number, text: string | undefined): Response {
  const body = text === undefined ? undefined : Buffer.from(text);
  return answerTo(request, { status, headers: {}, body });
}

function drawRequest(random: Random, number: number): Sent {
  const method = random.pick(["GET", "POST", "POST", "POST", "HEAD"]);
  const path = `/${number}`;
  const upgrade = random.next() < 0.1 ? "Connection: Upgrade\r\nUpgrade: h2c\r\n" : "";
  const head = `${method} ${path} HTTP/1.1\r\nHost: a\r\n${upgrade}`;
  if (method !== "POST") return { method, path, bytes: `${head}\r\n` };
  const body = "b".repeat(random.pick(BODY_BYTES));
  if (random.next() < 0.5) {
    return { method, path, bytes: `${head}Content-Length: ${body.length}\r\n\r\n${body}` };
  }
  let chunks = "";
  for (let at = 0; at < body.length;) {
    const part = body.slice(at, at + 1 + random.int(100_000));
    chunks += `${part.length.toString(16)}\r\n${part}\r\n`;
    at += part.length;
  }
  const trailer = random.next() < 0.3 ? "X-Trailer: 1\r\n" : "";
  return { method, path, bytes: `${head}Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n${trailer}\r\n` };
}

/** Takes the answers apart; throws for what is none, or is another request's. Gives how many there are. */
function countAnswers(received: string, sent: readonly Sent[]): number {
  let text = received;
  let count = 0;
  while (text.length > 0) {
    const { method, path } = sent[count++]!;
    const [, head = "", status = ""] = /^(HTTP\/1\.1 (\d{3}) .*?\r\n\r\n)/s.exec(text) ?? [];
    assert.ok(head !== "", `no head: ${text.slice(0, 80)}`);
    text = text.slice(head.length);
    if (method === "HEAD" || BODILESS.includes(Number(status))) {
      assert.doesNotMatch(head, /content-length|transfer-encoding/);
      continue;
    }
    let body = "";
    const length = /content-length: (\d+)/.exec(head)?.[1];
    if (length !== undefined) {
      body = text.slice(0, Number(length));
      text = text.slice(body.length);
    } else {
      assert.match(head, /transfer-encoding: chunked/);
      for (let bytes = -1; bytes !== 0;) {
        const line = /^([\da-f]+)\r\n/.exec(text)?.[0] ?? assert.fail(`no chunk: ${text.slice(0, 40)}`);
        bytes = parseInt(line, 16);
        body += text.slice(line.length, line.length + bytes);
        text = text.slice(line.length + bytes + 2);
      }
    }
    assert.ok(body.startsWith(`[${path}]`), `${path} has the answer ${body.slice(0, 30)}`);
  }
  return count;
}

async function deliver(client: FakeClient, bytes: string, { random, handlers }: {
  random: Random;
  handlers: Handlers;
}): Promise<void> {
  for (let at = 0; at < bytes.length;) {
    if (client.isPaused) {
      handlers.goOn();
      await client.drain(random.int(5_000));
      continue;
    }
    const part = bytes.slice(at, at + random.pick(PART_BYTES));
    at += part.length;
    await client.send(part);
    if (random.next() < 0.2) handlers.goOn();
    if (random.next() < 0.1) await client.drain(random.int(400));
  }
}

async function finish(client: FakeClient, handlers: Handlers): Promise<void> {
  for (let quiet = 0; quiet < 20; quiet++) {
    if (handlers.areWaiting) quiet = 0;
    handlers.goOn();
    await client.drain();
  }
}

test("whatever comes together, in whatever pieces, is answered in its order, framed rightly, and leaves nothing", async () => {
  for (let run = 0; run < often(150); run++) {
    const random = new Random(`${SEED} ${run}`);
    const handlers = new Handlers(random);
    const client = new FakeClient(handlers.answer);
    const sent = Array.from({ length: 1 + random.int(6) }, (_, number) => drawRequest(random, number));
    if (random.next() < 0.3) client.room = random.int(300);
    await deliver(client, sent.map(({ bytes }) => bytes).join(""), { random, handlers });
    await finish(client, handlers);
    assert.equal(countAnswers(client.received, sent), sent.length, `run ${run}`);
    assert.equal(client.isPaused || client.isClosed, false, `run ${run}`);
    await client.leave();
    assert.equal(client.isForgotten && handlers.open.size === 0, true, `run ${run}`);
    assert.equal(client.clock.pendingTimers, 0, `run ${run}`);
  }
});

test("whenever a client leaves, what is made for it is left, and no timer stays", async () => {
  for (let run = 0; run < often(150); run++) {
    const random = new Random(`leave ${SEED} ${run}`);
    const handlers = new Handlers(random);
    const client = new FakeClient(handlers.answer);
    const sent = Array.from({ length: 1 + random.int(4) }, (_, number) => drawRequest(random, number));
    const bytes = sent.map((one) => one.bytes).join("");
    if (random.next() < 0.5) client.room = random.int(2_000);
    await client.send(bytes.slice(0, random.int(bytes.length + 1)));
    if (random.next() < 0.5) handlers.goOn();
    await client.leave();
    await finish(client, handlers);
    await client.settle(60_000);
    assert.equal(client.isForgotten && handlers.open.size === 0, true, `run ${run}`);
    assert.equal(client.clock.pendingTimers, 0, `run ${run}`);
  }
});
