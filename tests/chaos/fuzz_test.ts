import assert from "node:assert/strict";
import { test } from "node:test";
import { SEED } from "../properties.ts";
import { fuzzRouter } from "./client_fuzz.ts";
import { fuzzWorkers, fuzzWorkersOverSockets } from "./worker_fuzz.ts";

const RESPONSES = 4_000;
const OVER_SOCKETS = 300;
const REQUESTS = 400;

test(`${RESPONSES} mutated responses of workers: none hangs or is misread, and the next request gets its own`, async () => {
  assert.deepEqual(await fuzzWorkers({ responses: RESPONSES, seed: `workers ${SEED}` }), []);
});

test(`${OVER_SOCKETS} of them over sockets`, async () => {
  assert.deepEqual(await fuzzWorkersOverSockets({ responses: OVER_SOCKETS, seed: `sockets ${SEED}` }), []);
});

test(`${REQUESTS} raw requests, most of them malformed: no 5xx, no crash, nothing smuggled to a worker`, async () => {
  const { wrong } = await fuzzRouter({ requests: REQUESTS, seed: `clients ${SEED}` });
  assert.deepEqual(wrong, []);
});
