import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openAIClientSuite, type Target } from "../conformance/openai_suite.ts";
import { until } from "../until.ts";
import { type RunningBinary, startBinary } from "./binary.ts";

let binary: RunningBinary;
let target: Target;

before(async () => {
  binary = await startBinary(["demo", "--serve-only", "--port", "0", "--speedup", "50"]);
  target = { baseUrl: binary.url, virtualModel: "moa", engineModel: "4b" };
});

after(async () => {
  await binary.stop();
});

openAIClientSuite(() => target);

test("SIGTERM ends the served demo with exit code 0", async () => {
  const other = await startBinary(["demo", "--serve-only", "--port", "0"]);
  // 503 until every engine has answered its first check.
  await until("readiness", async () => (await fetch(`${other.url}/readiness`)).status === 200);
  assert.equal(await other.stop(), 0);
});
