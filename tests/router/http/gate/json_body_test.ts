import assert from "node:assert/strict";
import { test } from "node:test";
import { atOnce } from "../../../../base/turns.ts";
import { refuseSprawl } from "../../../../router/http/gate/body.ts";
import { errorSchema } from "../../../../router/http/openai/response_schema.ts";
import { fakeApp } from "../fakes.ts";

async function post(body: BodyInit, headers: Record<string, string> = {}, maxBytes = 1000) {
  const { app } = fakeApp({ config: { models: {}, server: { max_body_bytes: maxBytes } } });
  const response = await app.request("/v1/chat/completions", { method: "POST", body, headers });
  const text = await response.text();
  return {
    status: response.status,
    error: response.ok ? undefined : errorSchema.parse(JSON.parse(text)).error,
  };
}

const GOOD = '{"model":"moa","messages":[{"role":"user","content":"Hi"}]}';

test("the position of a JSON fault is named, the same on every runtime", async () => {
  const cases: [string, RegExp][] = [
    ['{"model":"moa",}', /position 15: expected a property name in double quotes, found "}"/],
    ['{"model":"moa"', /position 14: expected "," or "}", found the end of the body/],
    ['{"model":moa}', /position 9: expected a value, found "m"/],
    ["{'model':1}", /position 1: expected a property name/],
    ['{"model" 1}', /position 9: expected ":"/],
    ['{"a":[1 2]}', /position 8: expected "," or "]"/],
    ['{"a":1} x', /position 8: expected the end/],
    ['{"a":"b\nc"}', /position 7: expected a string/],
    ['{"a":"\\x"}', /position 6: expected a string/],
    ['{"é😀":x}', /position 7: expected a value, found "x"/],
    ['{"a":01}', /position 6: expected "," or "}"/],
    ["", /position 0/],
    ["  ", /position 0/],
    ["[".repeat(50_000), /position 50000: expected a value/],
  ];
  for (const [body, message] of cases) {
    const { status, error } = await post(body, {}, 100_000);
    assert.equal(status, 400);
    assert.equal(error?.code, "invalid_json");
    assert.match(error?.message ?? "", message);
  }
});

test("a body that is JSON but no object is refused", async () => {
  for (const body of ["[]", "null", "5", '"x"', "true"]) {
    const { status, error } = await post(body);
    assert.equal(status, 400);
    assert.equal(error?.param, "body");
  }
});

test("a byte order mark is skipped, invalid UTF-8 is refused with its position", async () => {
  assert.equal((await post(`\ufeff${GOOD}`)).status, 200);
  const { status, error } = await post(new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d]));
  assert.equal(status, 400);
  assert.match(error?.message ?? "", /UTF-8 at character 2/);
});

test("a body above the limit is a 413, by its declared length or by what comes", async () => {
  const big = JSON.stringify({ model: "moa", prompt: "x".repeat(2000) });
  assert.equal((await post(big)).status, 413);
  assert.equal((await post(GOOD, { "content-length": "5000" })).status, 413);
  assert.equal((await post(GOOD, {}, GOOD.length)).status, 200);
  const { status, error } = await post(GOOD, {}, GOOD.length - 1);
  assert.equal(status, 413);
  assert.match(error?.message ?? "", new RegExp(`${GOOD.length - 1} bytes`));
});

test("a body without end is read no further than the limit", async () => {
  let sent = 0;
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      sent += 100;
      controller.enqueue(new Uint8Array(100).fill(0x20));
    },
  });
  const { app } = fakeApp({ config: { models: {}, server: { max_body_bytes: 1000 } } });
  const init = { method: "POST", body: endless, duplex: "half" };
  const response = await app.request(new Request("http://localhost/v1/completions", init));
  assert.equal(response.status, 413);
  assert.ok(sent < 5000, String(sent));
});

test("a compressed body is refused with a clear text", async () => {
  const { status, error } = await post(GOOD, { "content-encoding": "gzip" });
  assert.equal(status, 415);
  assert.match(error?.message ?? "", /gzip.*uncompressed/);
  assert.equal((await post(GOOD, { "content-encoding": "identity" })).status, 200);
});

test("a field of a million values is walked in turns, and one that sprawls is refused", () => {
  const turns = refuseSprawl({ prompt: Array.from({ length: 1_000_000 }, (_, at) => at) });
  let count = 1;
  while (turns.next().done !== true) count++;
  assert.ok(count >= 15, `${count} turns`);
  const parts = Array.from({ length: 100_000 }, () => ({}));
  assert.throws(() => atOnce(refuseSprawl({ parts })), /parts has more than 32768 lists and objects/);
});
