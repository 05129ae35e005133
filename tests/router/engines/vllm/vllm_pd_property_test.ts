import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../properties.ts";
import { VirtualClock } from "../../../../base/clock.ts";
import { isJsonObject, type JsonObject } from "../../../../base/json.ts";
import type { GenerateRequest, Prompt } from "../../../../router/engines/engine.ts";
import { collect } from "../harness.ts";
import { FakePair, type Fault, pairEngine, PairPlace } from "./vllm_pair.ts";

const fault: fc.Arbitrary<Fault> = fc.oneof(
  fc.constantFrom<Fault>("refuse", "reset", "reset_in_body"),
  fc.constantFrom(400, 429, 500, 503).map((status) => ({ status })),
);

const prompt: fc.Arbitrary<Prompt> = fc.oneof(
  fc.array(fc.nat(1919), { minLength: 1, maxLength: 8 }).map((ids) => ({ kind: "tokens" as const, ids })),
  fc.string({ minLength: 1, maxLength: 8, unit: "grapheme" }).map((text) => ({
    kind: "text" as const,
    text,
  })),
  fc.string({ maxLength: 8 }).map((content) => ({
    kind: "chat" as const,
    messages: [{ role: "user", content }],
  })),
);

/** Fields with which a hand-off goes on, and those with which it may not. */
const harmless: fc.Arbitrary<JsonObject> = fc.record({
  n: fc.constantFrom(1, 2),
  echo: fc.boolean(),
  min_tokens: fc.nat(3),
  cache_salt: fc.string({ minLength: 1 }),
  stream_options: fc.constant({ include_usage: false }),
  tools: fc.constant([{ type: "function" }]),
  tool_choice: fc.constant("auto"),
  add_special_tokens: fc.boolean(),
  kv_transfer_params: fc.constant({ do_remote_prefill: true, remote_request_id: "mine" }),
}, { requiredKeys: [] });
const dividing: fc.Arbitrary<JsonObject> = fc.record({
  truncate_prompt_tokens: fc.constantFrom(-1, 3),
  prompt_logprobs: fc.nat(1),
  tool_choice: fc.constant("none"),
}, { requiredKeys: [] });
const extra = fc.tuple(harmless, fc.oneof({ weight: 4, arbitrary: fc.constant({}) }, dividing))
  .map(([some, more]): JsonObject => ({ ...some, ...more }));

const job = fc.record({
  prompt,
  extra,
  seed: fc.option(fc.nat(), { nil: undefined }),
  startMs: fc.nat(200),
  /** When the client leaves, if it does. */
  leaveMs: fc.option(fc.nat(150), { nil: undefined, freq: 2 }),
});

/** What the first requests meet; `ok` is no fault. */
const some = fc.array(fc.oneof({ weight: 2, arbitrary: fc.constant<Fault>("ok") }, fault), { maxLength: 4 });
const faults = fc.record({ tokenize: some, prefill: some, decode: some });

test("whatever is asked and whatever fails: equal ids on both halves, parameters once, nothing left running", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(job, { minLength: 1, maxLength: 6 }),
      faults,
      fc.constantFrom("0.24.0", "0.32.0"),
      fc.constantFrom(Infinity, 2),
      async (jobs, failures, version, breakAfter) => {
        const clock = new VirtualClock();
        const pair = new FakePair(clock);
        pair.faults = failures;
        pair.breakAfter = breakAfter;
        const { engine, transport } = pairEngine(clock, pair, { version });
        await clock.run(async () => {
          await Promise.all(jobs.map(async ({ prompt, extra, seed, startMs, leaveMs }, at) => {
            await clock.sleep(startMs);
            const request: GenerateRequest = {
              id: `r${at}`,
              prompt,
              sampling: { max_tokens: 4, extra, ...(seed === undefined ? {} : { seed }) },
            };
            const gone = new AbortController();
            const reading = collect(engine.generate(request, new PairPlace(), gone.signal));
            reading.catch(() => {});
            if (leaveMs !== undefined) {
              await clock.sleep(leaveMs);
              gone.abort(new Error("gone"));
            }
            await reading.then((found) => assert.equal(found.text, "aaaa"), () => {});
          }));
        });
        assert.deepEqual(pair.breaches, []);
        checkHalves(pair);
        assert.deepEqual(pair.running, { prefill: 0, decode: 0 });
        assert.equal(transport.inFlight, 0);
        await clock.advance(clock.now());
        assert.equal(clock.pendingTimers, 0);
      },
    ),
    { numRuns: 300 },
  );
});

/** Every decode with parameters has the ids of the one prefill that gave them, and no other decode has them. */
function checkHalves(pair: FakePair): void {
  const used = new Set<string>();
  for (const { side, path, id, body, raw } of pair.sent) {
    assert.equal(raw.includes('"mine"'), false, "a client's own parameters");
    if (side === "prefill") {
      if (path !== "/v1/completions") continue;
      assert.equal(body.stream, false);
      assert.equal(body.max_tokens, 1);
      continue;
    }
    const params = body.kv_transfer_params;
    if (!isJsonObject(params)) continue;
    const key = String(params.remote_request_id);
    assert.equal(used.has(key), false, `${key} used twice`);
    used.add(key);
    const prefills = pair.sent.filter((other) =>
      other.side === "prefill" && other.path === "/v1/completions" && other.id === id
    );
    assert.equal(prefills.length, 1);
    assert.deepEqual(
      path === "/v1/completions" ? body.prompt : params.prompt_token_ids,
      prefills[0]?.body.prompt,
    );
  }
}
