import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import type { JsonObject } from "../../../base/json.ts";
import { TransportError } from "../../../base/transport.ts";
import type { Engine, GenerateEvent, GenerateRequest } from "../../../router/engines/engine.ts";
import type { MemoryHandler, MemoryTransport } from "../../../router/transport/memory.ts";
import { EngineError } from "../../../router/worker/engine_error.ts";
import { chatRequest, collect, engineOver, never, placement, textRequest } from "./harness.ts";

type Kind = "vllm" | "sglang" | "openai";

const encoder = new TextEncoder();

function sglangEvent(tokens: number, finish: JsonObject | null = null): string {
  return `data: ${
    JSON.stringify({
      text: "a".repeat(tokens),
      output_ids: Array(tokens).fill(5),
      meta_info: { prompt_tokens: 1, completion_tokens: tokens, cached_tokens: 0, finish_reason: finish },
    })
  }\n\n`;
}

const openAiEvent = (finish: string | null = null) =>
  `data: ${
    JSON.stringify({ choices: [{ index: 0, text: "a", delta: { content: "a" }, finish_reason: finish }] })
  }\n\n`;

/** A server that decodes a token every 10 ms until it is stopped, and notes all that happens to it. */
class Decoder {
  readonly log: string[] = [];
  running = 0;
  /** When the head of an answer is sent, how long until its first token, how long between later ones. */
  times = { headMs: 0, firstMs: 10, nextMs: 10, stallAfter: Infinity, tokens: 1_000_000 };
  /** False as in SGLang 0.5.18: a closed stream goes on decoding. */
  closeStops = true;
  abortAnswerMs = 5;
  readonly #clock: VirtualClock;
  readonly #kind: Kind;
  readonly #live = new Map<string, AbortController>();

  constructor(kind: Kind, clock: VirtualClock) {
    this.#kind = kind;
    this.#clock = clock;
  }

  readonly handle: MemoryHandler = async (request, signal) => {
    const path = new URL(request.url).pathname;
    const body: JsonObject = JSON.parse(String(request.body));
    const rid = String(body.rid ?? "-");
    if (path === "/abort_request") {
      this.log.push(this.#live.has(rid) ? "abort" : "abort unknown");
      this.#live.get(rid)?.abort();
      await this.#clock.sleep(this.abortAnswerMs, signal);
      this.log.push("abort answered");
      return { status: 200, headers: {}, body: nothing() };
    }
    const decode = new AbortController();
    this.#live.set(rid, decode);
    this.running++;
    this.log.push(path);
    const stopped = () => {
      if (this.#live.get(rid) !== decode) return;
      this.#live.delete(rid);
      this.running--;
    };
    decode.signal.addEventListener("abort", stopped, { once: true });
    signal.addEventListener("abort", () => {
      this.log.push("closed");
      if (this.closeStops) stopped();
      else this.#live.delete(rid);
    }, { once: true });
    await this.#clock.sleep(this.times.headMs, signal);
    return {
      status: 200,
      headers: { "content-type": "text/event-stream" },
      body: this.#tokens(decode.signal, signal, stopped),
    };
  };

  async *#tokens(decode: AbortSignal, client: AbortSignal, stopped: () => void): AsyncGenerator<Uint8Array> {
    const both = AbortSignal.any([decode, client]);
    for (let n = 1; n <= this.times.tokens; n++) {
      const waitMs = n > this.times.stallAfter ? Infinity : n === 1 ? this.times.firstMs : this.times.nextMs;
      try {
        if (waitMs === Infinity) await new Promise((_, reject) => both.addEventListener("abort", reject));
        else await this.#clock.sleep(waitMs, both);
      } catch {
        if (client.aborted) return;
        yield encoder.encode(sglangEvent(n, { type: "abort", message: "Aborted" }) + "data: [DONE]\n\n");
        return;
      }
      const last = n === this.times.tokens;
      const finish = this.#kind === "sglang" ? { type: "length", length: n } : "length";
      if (last) stopped();
      yield encoder.encode(
        this.#kind === "sglang"
          ? sglangEvent(n, last && typeof finish === "object" ? finish : null)
          : openAiEvent(last && typeof finish === "string" ? finish : null),
      );
    }
    yield encoder.encode("data: [DONE]\n\n");
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

interface Setup {
  readonly clock: VirtualClock;
  readonly server: Decoder;
  readonly engine: Engine;
  readonly transport: MemoryTransport;
  readonly request: GenerateRequest;
}

/** Runs in virtual time, and checks that nothing is left behind. */
function lifecycle(what: string, kind: Kind, run: (setup: Setup) => Promise<void>): void {
  test(`${kind}: ${what}`, async () => {
    const clock = new VirtualClock();
    const server = new Decoder(kind, clock);
    const { engine, transport } = engineOver(kind, server.handle, { clock });
    const request = kind === "openai" ? chatRequest : textRequest;
    await clock.run(() => run({ clock, server, engine, transport, request }));
    await clock.advance(clock.now());
    assert.equal(transport.inFlight, 0, "exchanges in flight");
    assert.equal(clock.pendingTimers, 0, "timers");
    assert.equal(server.running, 0, "decodes");
  });
}

async function read(
  events: AsyncIterable<GenerateEvent>,
  count: number,
): Promise<AsyncIterator<GenerateEvent>> {
  const iterator = events[Symbol.asyncIterator]();
  for (let i = 0; i < count; i++) assert.equal((await iterator.next()).done, false);
  return iterator;
}

const hasCode = (code: string, message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof EngineError, String(error));
  assert.equal(error.code, code);
  assert.match(error.message, message);
  assert.equal(error.retryable, true);
  return true;
};

for (const kind of ["vllm", "sglang", "openai"] as const) {
  lifecycle("a whole generation leaves nothing behind", kind, async ({ engine, server, request }) => {
    server.times.tokens = 5;
    const found = await collect(engine.generate(request, placement, never));
    assert.equal(found.text, "aaaaa");
    assert.equal(found.finishReason, "length");
    assert.ok(!server.log.includes("abort"));
  });

  lifecycle(
    "an aborted signal ends a stream with its reason",
    kind,
    async ({ engine, clock, server, request }) => {
      const controller = new AbortController();
      const iterator = await read(engine.generate(request, placement, controller.signal), 3);
      const reason = new Error("enough");
      const waiting = iterator.next();
      controller.abort(reason);
      await assert.rejects(waiting, (error) => error === reason);
      assert.equal(server.running, 0);
      assert.ok(clock.now() < 1000);
      assert.equal((await iterator.next()).done, true);
    },
  );

  lifecycle("a reader that breaks off ends the decode before `return` settles", kind, async (setup) => {
    const { engine, server, request } = setup;
    for await (const _event of engine.generate(request, placement, never)) break;
    assert.equal(server.running, 0);
  });

  lifecycle("`return` interrupts a read in progress", kind, async ({ engine, server, request }) => {
    server.times.stallAfter = 2;
    const iterator = await read(engine.generate(request, placement, never), 2);
    const waiting = iterator.next();
    await iterator.return?.();
    assert.deepEqual(await waiting, { done: true, value: undefined });
    assert.equal(server.running, 0);
  });

  lifecycle("an abort before the head ends the request", kind, async ({ engine, clock, server, request }) => {
    server.times.headMs = 60_000;
    const controller = new AbortController();
    const iterator = engine.generate(request, placement, controller.signal)[Symbol.asyncIterator]();
    const waiting = iterator.next();
    await clock.sleep(10);
    controller.abort(new Error("enough"));
    await assert.rejects(waiting, /enough/);
    assert.equal(server.running, 0);
    assert.ok(clock.now() < 1000, `${clock.now()} ms`);
  });

  lifecycle("a signal that is aborted already sends nothing", kind, async ({ engine, server, request }) => {
    const events = engine.generate(request, placement, AbortSignal.abort(new Error("before")));
    await assert.rejects(collect(events), /before/);
    assert.deepEqual(server.log, []);
  });

  lifecycle("a generator that nobody starts sends nothing", kind, async ({ engine, server, request }) => {
    const events = engine.generate(request, placement, never)[Symbol.asyncIterator]();
    await events.return?.();
    assert.deepEqual(await events.next(), { done: true, value: undefined });
    assert.deepEqual(server.log, []);
  });

  lifecycle(
    "no first token within the limit is a time-out",
    kind,
    async ({ engine, clock, server, request }) => {
      server.times.firstMs = Infinity;
      server.times.stallAfter = 0;
      await assert.rejects(
        collect(engine.generate(request, placement, never)),
        hasCode("worker_timeout", /no token within 600000 ms/),
      );
      assert.ok(clock.now() >= 600_000 && clock.now() < 602_000);
    },
  );

  lifecycle("a stream that falls silent is a time-out", kind, async ({ engine, clock, server, request }) => {
    server.times.stallAfter = 3;
    await assert.rejects(
      collect(engine.generate(request, placement, never)),
      hasCode("worker_timeout", /nothing more within 120000 ms/),
    );
    assert.ok(clock.now() >= 120_000 && clock.now() < 122_000);
  });

  lifecycle(
    "a slow stream that keeps coming is no time-out",
    kind,
    async ({ engine, clock, server, request }) => {
      server.times = { headMs: 500_000, firstMs: 90_000, nextMs: 119_000, stallAfter: Infinity, tokens: 20 };
      const found = await collect(engine.generate(request, placement, never));
      assert.equal(found.text.length, 20);
      assert.ok(clock.now() > 20 * 119_000);
    },
  );

  lifecycle(
    "a reader that takes its time is no time-out",
    kind,
    async ({ engine, clock, server, request }) => {
      server.times.tokens = 4;
      let deltas = 0;
      for await (const event of engine.generate(request, placement, never)) {
        if (event.type === "delta") deltas++;
        await clock.sleep(1_000_000);
      }
      assert.equal(deltas, 4);
    },
  );
}

lifecycle(
  "the abort is answered before the stream is closed",
  "sglang",
  async ({ engine, server, request }) => {
    server.closeStops = false;
    server.abortAnswerMs = 200;
    const controller = new AbortController();
    const iterator = await read(engine.generate(request, placement, controller.signal), 3);
    controller.abort(new Error("enough"));
    await assert.rejects(iterator.next(), /enough/);
    assert.deepEqual(server.log.slice(0, 3), ["/generate", "abort", "abort answered"]);
    assert.equal(server.running, 0);
  },
);

lifecycle(
  "an abort that overtakes its request is sent again",
  "sglang",
  async ({ engine, clock, server, request }) => {
    const controller = new AbortController();
    const handle = server.handle;
    // The request takes 100 ms to arrive; the abort arrives at once.
    const { engine: slow } = engineOver("sglang", async (outgoing, signal) => {
      if (outgoing.url.endsWith("/generate")) await clock.sleep(100);
      return await handle(outgoing, signal);
    }, { clock });
    server.closeStops = false;
    const waiting = slow.generate(request, placement, controller.signal)[Symbol.asyncIterator]().next();
    await clock.sleep(1);
    controller.abort(new Error("enough"));
    await assert.rejects(waiting, /enough/);
    assert.equal(server.log[0], "abort unknown");
    assert.ok(server.log.includes("abort"));
    assert.equal(server.running, 0);
    assert.ok(clock.now() < 1000, `${clock.now()} ms`);
    void engine;
  },
);

lifecycle("an abort that nobody answers delays the end by a bounded time", "sglang", async (setup) => {
  const { engine, clock, server, request } = setup;
  server.abortAnswerMs = 1_000_000;
  server.closeStops = true;
  for await (const _event of engine.generate(request, placement, never)) break;
  assert.ok(clock.now() < 6_000, `${clock.now()} ms`);
});

lifecycle("every request has an id of its own, all of one length", "sglang", async ({ clock, request }) => {
  const rids = new Set<string>();
  const { engine } = engineOver("sglang", (outgoing) => {
    rids.add(String(JSON.parse(String(outgoing.body)).rid));
    return Promise.reject(new TransportError("reset_before_head", outgoing.url));
  }, { clock });
  for (let i = 0; i < 50; i++) {
    const asked = i % 2 === 0 ? request : chatRequest;
    await assert.rejects(
      collect(engine.generate(asked, placement, never)),
      hasCode("worker_connection_lost", /before/),
    );
  }
  assert.equal(rids.size, 50);
  assert.equal(new Set([...rids].map((rid) => rid.length)).size, 1);
});

test("a worker that cannot be reached is named, whatever the engine", async () => {
  for (const kind of ["vllm", "sglang", "openai"] as const) {
    const { engine } = engineOver(
      kind,
      (outgoing) => Promise.reject(new TransportError("connect_failed", outgoing.url)),
    );
    await assert.rejects(
      collect(engine.generate(textRequest, placement, never)),
      hasCode("worker_unreachable", /^Worker w1 cannot be reached$/),
    );
  }
});
