import assert from "node:assert/strict";
import { test } from "node:test";
import { refusalBody } from "../../../router/relay/refusal_body.ts";

const worker = { workerId: "m.w1", url: "http://w:1" };

test("a list of FastAPI names the fields, and repeats nothing of the request", () => {
  const detail = [
    { type: "int_parsing", loc: ["body", "top_k"], msg: "Input should be a valid integer", input: "secret" },
    {
      type: "missing",
      loc: ["body", "messages", 0, "role"],
      msg: "Field required",
      input: { content: "secret" },
    },
  ];
  const body = refusalBody(
    worker,
    { status: 422, path: "/v1/chat/completions" },
    new TextEncoder().encode(JSON.stringify({ detail })),
  );
  assert.deepEqual(JSON.parse(new TextDecoder().decode(body)).error, {
    message: "top_k: Input should be a valid integer; messages.0.role: Field required",
    type: "invalid_request_error",
    param: "top_k",
    code: "worker_refused",
  });
});

test("vLLM's place of an error is the field's, without body before it", () => {
  const message = "1 validation error:\n  {'type': 'string_type', 'loc': 'body.stop.0', " +
    "'msg': 'Input should be a valid string', 'input': 'secret'}\n\n  File \"/x.py\", line 1\n    POST /v1/completions";
  const error = { message, type: "BadRequestError", param: "body.stop.0", code: 400 };
  const body = refusalBody(
    worker,
    { status: 400, path: "/v1/chat/completions" },
    new TextEncoder().encode(JSON.stringify({ error })),
  );
  const { error: shown } = JSON.parse(new TextDecoder().decode(body));
  assert.deepEqual([shown.message, shown.param], ["stop.0: Input should be a valid string", "stop.0"]);
});

test("a refusal that repeats the request is read at once, whatever stands in that", () => {
  // What looks for a stack trace from each of these lines to the last one takes minutes.
  const error = { message: `Cannot read${"\n".repeat(400_000)}`, type: "BadRequestError" };
  const body = refusalBody(
    worker,
    { status: 400, path: "/v1/chat/completions" },
    new TextEncoder().encode(JSON.stringify({ error })),
  );
  assert.match(new TextDecoder().decode(body), /^\{"error":\{"message":"Cannot read/);
  const places = JSON.stringify({ error: { ...error, message: `'input': ${"'loc': (".repeat(100_000)}` } });
  assert.ok(
    refusalBody(worker, { status: 400, path: "/v1/chat/completions" }, new TextEncoder().encode(places))
      .length > 0,
  );
});
