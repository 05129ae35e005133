import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import type { Transport } from "../../../base/transport.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { type CheckResult, HealthChecker } from "../../../router/pool/health.ts";

const LIMIT_MS = 500;

/** What the first check says of a worker that answers after so long. */
async function firstCheck(answerMs: number): Promise<CheckResult> {
  const clock = new VirtualClock();
  const transport: Transport = {
    async send(_request, signal) {
      await clock.sleep(answerMs, signal);
      return { status: 200, headers: {}, body: (async function* () {})() };
    },
    close: () => Promise.resolve(),
  };
  const config = configSchema.parse({
    models: { m: { model: "m", engine: "vllm", workers: ["http://a"], health: { timeout_ms: LIMIT_MS } } },
  }).models.m!;
  const life = new AbortController();
  const { promise, resolve } = Promise.withResolvers<CheckResult>();
  const checker = new HealthChecker({
    config,
    access: { url: "http://a", apiKey: undefined },
    clock,
    transport,
    onCheck: (result) => {
      life.abort();
      resolve(result);
    },
  });
  await clock.run(() => checker.run(life.signal));
  return await promise;
}

test("An answer to a health check that is there when the limit fires counts, and a later one does not", async () => {
  // A loop that is behind fires its timers before it reads its sockets.
  assert.equal(await firstCheck(LIMIT_MS), undefined);
  assert.match(String(await firstCheck(LIMIT_MS + 1)), /gave no answer within 500 ms/);
});
