import assert from "node:assert/strict";
import { test } from "node:test";
import { refusalBody } from "../../../router/relay/refusal_body.ts";

test("a refusal that repeats the request is read at once, whatever stands in that", () => {
  const worker = { workerId: "m.w1", url: "http://w:1" };
  // What looks for a stack trace from each of these lines to the last one takes minutes.
  const error = { message: `Cannot read${"\n".repeat(400_000)}`, type: "BadRequestError" };
  const body = refusalBody(worker, 400, new TextEncoder().encode(JSON.stringify({ error })));
  assert.match(new TextDecoder().decode(body), /^\{"error":\{"message":"Cannot read/);
});
