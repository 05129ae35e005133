import assert from "node:assert/strict";
import { test } from "node:test";
import { badRequest, CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject } from "../../base/json.ts";

test("CanopyError takes OpenAI's error type from the status", () => {
  const types = [400, 401, 403, 404, 422, 429, 500, 502, 503].map((status) =>
    new CanopyError("x", { code: "c", status }).type
  );
  assert.deepEqual(types, [
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "invalid_request_error",
    "rate_limit_error",
    "server_error",
    "server_error",
    "overloaded_error",
  ]);
  assert.equal(new CanopyError("x", { code: "c", status: 500, type: "mine" }).type, "mine");
});

test("CanopyError keeps its cause and is recognised among other values", () => {
  const cause = new Error("below");
  const error = new CanopyError("above", { code: "c", status: 502, cause });
  assert.equal(error.cause, cause);
  assert.equal(error.name, "CanopyError");
  assert.ok(error instanceof Error);
  assert.ok(CanopyError.is(error));
  for (const other of [new Error("x"), null, undefined, "x", { code: "c", status: 1 }]) {
    assert.equal(CanopyError.is(other), false);
  }
});

test("badRequest names the field at fault", () => {
  const error = badRequest("messages[0].role", "role is missing");
  assert.equal(error.status, 400);
  assert.equal(error.param, "messages[0].role");
  assert.equal(error.code, "invalid_value");
  assert.equal(badRequest(undefined, "body is empty", "empty").param, undefined);
});

test("messageOf gives the sentence of anything that was thrown", () => {
  assert.equal(messageOf(new Error("one")), "one");
  assert.equal(messageOf("two"), "two");
  assert.equal(messageOf(undefined), "undefined");
});

test("isJsonObject accepts objects only", () => {
  assert.equal(isJsonObject({}), true);
  for (const other of [[], null, "x", 1, undefined]) assert.equal(isJsonObject(other), false);
});
