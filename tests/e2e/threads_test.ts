import assert from "node:assert/strict";
import { test } from "node:test";
import "../loopback.ts";
import { until } from "../until.ts";
import { startBinary } from "./binary.ts";

test("the binary serves with several threads, whose streams all end well when it is asked to stop", async () => {
  const sim = await startBinary([
    "sim",
    "--engine",
    "sglang",
    "--model",
    "m",
    "--port",
    "0",
    "--speedup",
    "5",
  ]);
  const router = await startBinary([
    ...["serve", "--worker-urls", sim.url, "--workers", "2", "--host", "127.0.0.1", "--port", "0"],
    ...["--prometheus-port", "0", "--log-level", "warn"],
  ]);
  try {
    await until("it is ready", async () => {
      const answer = await fetch(`${router.url}/readiness`);
      await answer.body?.cancel();
      return answer.ok;
    });
    const body = JSON.stringify({
      model: "m",
      messages: [{ role: "user", content: "Why is the sky blue?" }],
      stream: true,
      max_tokens: 64,
      ignore_eos: true,
    });
    const headers = { "content-type": "application/json" };
    const streams = await Promise.all(
      Array.from(
        { length: 24 },
        () => fetch(`${router.url}/v1/chat/completions`, { method: "POST", headers, body }),
      ),
    );
    const metrics = await (await fetch(`${router.url}/metrics`)).text();
    assert.match(metrics, /^canopy_threads 2$/m);
    const stopped = router.stop();
    const texts = await Promise.all(streams.map((stream) => stream.text()));
    assert.ok(texts.every((text) => text.endsWith("data: [DONE]\n\n")));
    assert.equal(await stopped, 0, router.output());
  } finally {
    await router.stop();
    await sim.stop();
  }
});
