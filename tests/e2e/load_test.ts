/** A worker that is full and slow, but well, stays in service. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { SystemClock } from "../../base/clock.ts";
import { readText } from "../../base/read_body.ts";
import { systemTransport } from "../../router/transport/system.ts";
import { type ServerSide, startNetServer } from "../router/transport/scripted_server.ts";
import { HANG_MS, until } from "../until.ts";
import { type RunningBinary, startBinary } from "./binary.ts";

/** More than Bun's `fetch` runs at once. */
const STREAMS = 300;
const CHECKS = 8;
const clock = new SystemClock();

test("300 streams of one slow worker: it stays healthy, the router ready, and nothing is lost", {
  timeout: HANG_MS,
}, async () => {
  const full = Promise.withResolvers<void>();
  const checked = Promise.withResolvers<void>();
  const streams: ServerSide[] = [];
  let checks = 0;
  const worker = await startNetServer((side) => {
    if (side.path === "/v1/chat/completions") {
      side.head(200, { "content-type": "text/event-stream" });
      void side.write(event("begin"));
      if (streams.push(side) === STREAMS) full.resolve();
      return;
    }
    if (side.path === "/health" && streams.length === STREAMS && ++checks === CHECKS) checked.resolve();
    const body = side.path === "/v1/models" ? JSON.stringify({ data: [{ id: "slow" }] }) : "{}";
    side.head(200, { "content-type": "application/json", "content-length": String(body.length) });
    void side.write(body);
  });
  const folder = mkdtempSync(join(tmpdir(), "canopy-load-"));
  const transport = systemTransport();
  const signal = new AbortController().signal;
  let router: RunningBinary | undefined;
  try {
    const health = { interval_ms: 250, timeout_ms: 60_000 };
    const slow = { model: "slow", engine: "vllm", workers: [worker.url], max_in_flight: 1_000, health };
    const config = { server: { max_running: 1_000 }, models: { slow } };
    writeFileSync(join(folder, "canopy.json"), JSON.stringify(config));
    const { url: base } = router = await startBinary(["serve", "canopy.json", "--port", "0"], {
      cwd: folder,
    });
    const readiness = async () =>
      (await transport.send({ method: "GET", url: `${base}/readiness`, headers: {} }, signal)).status;
    // It is not ready before its worker has answered once.
    await until("readiness", async () => await readiness() === 200);
    const body = JSON.stringify({ model: "slow", stream: true, messages: [{ role: "user", content: "Go" }] });
    const answers = Array.from({ length: STREAMS }, async () => {
      const headers = { "content-type": "application/json" };
      const url = `${base}/v1/chat/completions`;
      const response = await transport.send({ method: "POST", url, headers, body }, signal);
      const text = await readText(response.body, 100_000, "the answer");
      assert.equal(response.status, 200, text);
      return text;
    });
    let watching = true;
    const ready = (async () => {
      for (; watching; await clock.sleep(50)) assert.equal(await readiness(), 200);
    })();
    await Promise.race([Promise.all([full.promise, checked.promise]), ready, Promise.all(answers)]);
    for (const side of streams) {
      void side.write(event("end") + "data: [DONE]\n\n");
      side.end();
    }
    watching = false;
    await ready;
    for (const text of await Promise.all(answers)) assert.match(text, /begin[^]*end[^]*\[DONE\]/);
    assert.equal(await router.stop(), 0);
    assert.doesNotMatch(router.output(), /unhealthy/);
  } finally {
    router?.process.kill("SIGKILL");
    await worker.stop();
    rmSync(folder, { recursive: true });
  }
});

function event(content: string): string {
  const choices = [{ index: 0, delta: { content }, finish_reason: content === "end" ? "stop" : null }];
  return `data: ${
    JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "slow", choices })
  }\n\n`;
}
