import assert from "node:assert/strict";
import { test } from "node:test";
import { isLeadingPath } from "../../../router/threads/serving_router.ts";

test("requests about workers, runs and metrics go to the thread that leads, however their paths are spelt", () => {
  const host = "http://router:8000";
  for (
    const path of [
      "/workers",
      "/workers/",
      "/workers/m.w1",
      "/workers/http%3A%2F%2Fa%3A1",
      "/%77orkers",
      "/v1/runs",
      "/v1/runs?limit=3",
      "/v1/runs/run_1/cancel",
      "/metrics",
      "/readiness",
      "/v1/config",
      "/abort_request",
      "/add_worker?url=http://a",
    ]
  ) assert.ok(isLeadingPath(host + path), path);
  for (
    const path of [
      "",
      "/",
      "/health",
      "/v1/models",
      "/v1/chat/completions",
      "/v1/chat/completions?x=/workers",
      "/workersx",
      "/v1/runsome",
      "/%",
    ]
  ) assert.ok(!isLeadingPath(host + path), path);
});
