import assert from "node:assert/strict";
import { test } from "node:test";
import type { Router } from "../../../../router/router.ts";
import { makeWorld } from "../../../simulation/world.ts";

/** The value of a series, whatever the order of its labels. */
function valueOf(page: string, name: string, labels: Record<string, string>): number | undefined {
  for (const line of page.split("\n")) {
    const [, found, inside = "", value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (found !== name) continue;
    if (Object.entries(labels).every(([label, text]) => inside.includes(`${label}="${text}"`))) {
      return Number(value);
    }
  }
  return undefined;
}

async function ask(router: Router, model: string): Promise<number> {
  const response = await router.app.request("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, max_tokens: 4, messages: [{ role: "user", content: "Why?" }] }),
  });
  await response.text();
  return response.status;
}

async function metricsOf(router: Router): Promise<string> {
  return await (await router.app.request("/metrics")).text();
}

test("retries, those that ran out, breakers' changes, checks and selections are counted as they happened", async () => {
  let broken = "";
  const world = makeWorld({
    seed: "series",
    replicas: 2,
    graphs: {},
    model: { retries: 1, policy: "round_robin", breaker: { failures: 2, open_ms: 60_000 } },
    intercept: ({ url, lane }) =>
      lane !== "control" && broken !== "" && new URL(url).hostname.startsWith(broken)
        ? () => Promise.resolve({ status: 500, headers: {}, body: (async function* () {})() })
        : undefined,
  });
  await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    await world.clock.sleep(5_000);
    for (let i = 0; i < 4; i++) assert.equal(await ask(router, "4b"), 200);
    broken = "4b-1";
    for (let i = 0; i < 4; i++) assert.equal(await ask(router, "4b"), 200);
    const retried = await metricsOf(router);
    const chat = { worker_type: "regular", endpoint: "chat" };
    // The broken one was chosen twice, then its breaker is open.
    assert.equal(valueOf(retried, "smg_worker_retries_total", chat), 2);
    assert.equal(valueOf(retried, "smg_worker_retry_backoff_seconds_count", { worker_type: "regular" }), 2);
    assert.equal(valueOf(retried, "smg_worker_retries_exhausted_total", chat), undefined);
    const ill = { worker: "http://4b-1.sim" };
    assert.equal(valueOf(retried, "smg_worker_cb_consecutive_failures", ill), 2);
    assert.equal(valueOf(retried, "smg_worker_cb_consecutive_successes", { worker: "http://4b-0.sim" }), 6);
    assert.equal(
      valueOf(retried, "smg_worker_cb_transitions_total", { ...ill, from: "closed", to: "open" }),
      1,
    );
    const chosen = { worker_type: "regular", model: "4b", policy: "round_robin" };
    assert.equal(valueOf(retried, "smg_worker_selection_total", chosen), 10);
    assert.equal(valueOf(retried, "smg_http_rate_limit_total", { result: "allowed" }), 8);
    assert.equal(valueOf(retried, "smg_http_rate_limit_total", { result: "rejected" }), 0);
    assert.ok(valueOf(retried, "smg_worker_health_checks_total", { result: "success" })! >= 6);
    assert.equal(valueOf(retried, "smg_worker_health_checks_total", { result: "failure" }), 0);

    broken = "4b";
    assert.equal(await ask(router, "4b"), 502);
    const lost = await metricsOf(router);
    assert.equal(valueOf(lost, "smg_worker_retries_exhausted_total", chat), 1);
    await router.close();
  });
});

test("a request that finds no place is counted as turned away, one whose client leaves is not", async () => {
  const world = makeWorld({
    seed: "places",
    replicas: 1,
    graphs: {},
    server: { max_running: 1, max_queued: 1 },
  });
  await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    const statuses = await Promise.all([ask(router, "4b"), ask(router, "4b"), ask(router, "4b")]);
    assert.deepEqual(statuses.sort(), [200, 200, 429]);
    const page = await metricsOf(router);
    assert.equal(valueOf(page, "smg_http_rate_limit_total", { result: "allowed" }), 2);
    assert.equal(valueOf(page, "smg_http_rate_limit_total", { result: "rejected" }), 1);
    await router.close();
  });
});
