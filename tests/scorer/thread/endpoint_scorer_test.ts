import assert from "node:assert/strict";
import { test } from "node:test";
import { SystemClock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { isJsonObject } from "../../../base/json.ts";
import { logger } from "../../../base/log.ts";
import type { IncomingResponse, OutgoingRequest, Transport } from "../../../base/transport.ts";
import { scorerSchema } from "../../../cfgs/schema/scorer.ts";
import { createScorer } from "../../../scorer/create.ts";
import type { Scorer } from "../../../scorer/scorer.ts";

const WIDTH = 4;

/** A row for each word and one for the end. */
function pooled(text: string): unknown {
  const words = [...text.split(" "), "end"];
  const rows = words.map((word) =>
    Array.from({ length: WIDTH }, (_, column) => Math.sin(word.charCodeAt(0) * (column + 1)))
  );
  const bytes = new Uint8Array(Float32Array.from(rows.flat()).buffer);
  return {
    data: [{ data: btoa(String.fromCharCode(...bytes)) }],
    usage: { prompt_tokens: words.length },
  };
}

class FakeEndpoint implements Transport {
  readonly texts: string[] = [];
  /** Requests whose caller has left. */
  left = 0;
  answer = (text: string): { status: number; body: unknown } | undefined => ({
    status: 200,
    body: pooled(text),
  });

  send({ url, body }: OutgoingRequest, signal: AbortSignal): Promise<IncomingResponse> {
    assert.equal(url, "http://gpu1:8000/pooling");
    const fields: unknown = JSON.parse(String(body));
    assert.ok(isJsonObject(fields));
    const text = String(fields["input"]);
    this.texts.push(text);
    const answer = this.answer(text);
    if (answer === undefined) {
      return new Promise((_, reject) =>
        signal.addEventListener("abort", () => {
          this.left++;
          reject(signal.reason);
        })
      );
    }
    async function* bytes(): AsyncGenerator<Uint8Array> {
      const whole = new TextEncoder().encode(JSON.stringify(answer!.body));
      await Promise.resolve();
      for (let at = 0; at < whole.length; at += 100) yield whole.subarray(at, at + 100);
    }
    return Promise.resolve({ status: answer.status, headers: {}, body: bytes() });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function create(transport: Transport, signal = new AbortController().signal): Promise<Scorer> {
  const settings = { embedder: "http", url: "http://gpu1:8000", model: "m" };
  return createScorer(scorerSchema.parse(settings), {
    clock: new SystemClock(),
    log: logger("test"),
    env: {},
    transport,
    signal,
  });
}

function answers(scorer: Scorer, texts: Record<string, string>): void {
  for (const [id, text] of Object.entries(texts)) {
    const feed = scorer.open(id);
    feed.append(text);
    feed.end();
  }
}

const clock = new SystemClock();

/** A timer of the program's own keeps Deno's event loop going while the thread works. */
async function awake<T>(work: Promise<T>): Promise<T> {
  const over = new AbortController();
  clock.sleep(60_000, over.signal).catch(() => {});
  try {
    return await work;
  } finally {
    over.abort();
  }
}

test("an endpoint's features are compared in a thread, and every request goes through the router's transport", async () => {
  const endpoint = new FakeEndpoint();
  const scorer = await create(endpoint);
  assert.deepEqual(scorer.facts?.details["endpoint"], "/pooling");
  answers(scorer, { a: "one two three", b: "one two three", c: "up and away" });
  const [same, other] = await awake(Promise.all([
    scorer.similarity("a", "b", "fcs", 60_000),
    scorer.similarity("a", "c", "fcs", 60_000),
  ]));
  assert.ok(Math.abs((same.value ?? 0) - 1) < 1e-6, JSON.stringify(same));
  assert.ok((other.value ?? 1) < 0.999 && (other.value ?? -1) >= 0, JSON.stringify(other));
  assert.deepEqual(same.tokens, [4, 4]);
  assert.deepEqual(endpoint.texts.toSorted(), ["Hello", "one two three", "one two three", "up and away"]);
  await scorer.close();
});

test("an endpoint that refuses, or answers nonsense, leaves the similarity unknown with its words", async () => {
  const endpoint = new FakeEndpoint();
  const scorer = await create(endpoint);
  endpoint.answer = () => ({ status: 503, body: { error: { message: "out of memory" } } });
  answers(scorer, { a: "one", b: "two" });
  const { value, reason } = await awake(scorer.similarity("a", "b", "fcs", 60_000));
  assert.equal(value, undefined);
  assert.match(reason ?? "", /503: out of memory/);
  await scorer.close();
});

test("an answer that is closed, and a scorer that is, leave nothing on its way to the endpoint", async () => {
  const endpoint = new FakeEndpoint();
  const scorer = await create(endpoint);
  endpoint.answer = () => undefined;
  const feed = scorer.open("a");
  feed.append("one");
  feed.end();
  answers(scorer, { b: "two" });
  while (endpoint.texts.length < 3) await clock.sleep(2);
  feed.close();
  while (endpoint.left < 1) await clock.sleep(2);
  await scorer.close();
  while (endpoint.left < endpoint.texts.length - 1) await clock.sleep(2);
});

test("an endpoint that gives nothing is told when the scorer is made, and a stop ends the wait for it", async () => {
  const endpoint = new FakeEndpoint();
  endpoint.send = () => Promise.reject(new Error("nobody is there"));
  await assert.rejects(create(endpoint), (error) => {
    assert.ok(CanopyError.is(error));
    assert.deepEqual([error.status, error.code], [502, "embeddings_unavailable"]);
    assert.match(error.message, /nobody is there/);
    return true;
  });
  const silent = new FakeEndpoint();
  silent.answer = () => undefined;
  const stop = new AbortController();
  const made = create(silent, stop.signal);
  while (silent.texts.length === 0) await clock.sleep(2);
  stop.abort();
  await assert.rejects(made, /closed/);
});
