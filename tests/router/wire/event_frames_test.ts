import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { ModelRename } from "../../../router/relay/model_rename.ts";
import { EventFrames } from "../../../router/wire/event_frames.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/** Cuts a text at the given places (taken modulo its length). */
function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const at = [...new Set(places.map((place) => place % bytes.length))].sort((a, b) => a - b);
  return [0, ...at].map((start, i) => bytes.subarray(start, at[i] ?? bytes.length));
}

/** Characters that JSON must escape, may escape, or spells in one to four bytes. */
const unit = fc.constantFrom(
  "a",
  "Z",
  "0",
  " ",
  "/",
  '"',
  "\\",
  "\n",
  "\u0001",
  "\u007f",
  "é",
  "\u2028",
  "模",
  "😀",
);

const data = fc.oneof(fc.jsonValue().map((value) => JSON.stringify(value)), fc.constant("[DONE]"));
const lineEnd = fc.constantFrom("\n", "\r\n");

test("however a stream is cut into chunks, whole events come out, unchanged and complete", () => {
  fc.assert(fc.property(
    fc.array(data, { minLength: 1, maxLength: 8 }),
    lineEnd,
    fc.array(fc.nat(), { maxLength: 12 }),
    (events, end, places) => {
      const text = events.map((event) => `data: ${event}${end}${end}`).join("");
      const frames = new EventFrames();
      let passed = "";
      for (const chunk of cut(encode(text), places)) {
        const out = decode(frames.push(chunk));
        assert.ok(out === "" || out.endsWith(`${end}${end}`), JSON.stringify(out));
        passed += out;
      }
      assert.equal(passed + decode(frames.rest()), text);
      assert.equal(frames.done, events.at(-1) === "[DONE]");
    },
  ));
});

test("[DONE] counts only as an event of its own", () => {
  const done = (...chunks: string[]) => {
    const frames = new EventFrames();
    for (const chunk of chunks) frames.push(encode(chunk));
    return frames.done;
  };
  assert.equal(done("data: [DONE]\n\n"), true);
  assert.equal(done("data: [DONE]\r\n\r\n"), true);
  assert.equal(done("data: {}\n\ndata: [DONE]\n\n"), true);
  assert.equal(done("data: {}\n\nda", "ta: [DO", "NE]\n\n"), true);
  assert.equal(done("data: {}\n\n", "data: [DONE]"), true);
  assert.equal(done('data: {"text":"data: [DONE]"}\n\n'), false);
  assert.equal(done('data: {"text":"\\n\\ndata: [DONE]\\n\\n"}\n\n'), false);
  assert.equal(done(`data: ${"x".repeat(64 - 14 - 1)}\ndata: [DONE]\n\n`), false);
  assert.equal(done(`data: ${"x".repeat(200)}data: [DONE]\n\n`), false);
  assert.equal(done("data: [DONE]\n\n", "data: {}\n\n"), false);
  assert.equal(done(), false);
});

test("an event without end is passed on in pieces instead of being kept", () => {
  const frames = new EventFrames();
  let passed = 0;
  for (let i = 0; i < 40; i++) passed += frames.push(new Uint8Array(64 * 1024).fill(0x61)).length;
  assert.ok(passed >= 39 * 64 * 1024 - 1024 * 1024);
  assert.equal(frames.torn, true);
});

test("error events are noticed, texts about errors are not", () => {
  const frames = new EventFrames();
  frames.push(encode('data: {"text":"{\\"error\\":1}"}\n\n'));
  assert.equal(frames.sawError, false);
  frames.push(encode('data: {"error":{"code":500}}\n\n'));
  assert.equal(frames.sawError, true);
});

test("renaming the model changes the top-level name in every event and nothing else", () => {
  fc.assert(fc.property(
    fc.array(fc.record({ id: fc.stringMatching(/^[a-z0-9-]{0,12}$/), text: fc.string({ unit }) }), {
      minLength: 1,
      maxLength: 4,
    }),
    fc.string({ unit }),
    (chunks, asked) => {
      const stream = (model: string) =>
        chunks.map(({ id, text }) =>
          `data: ${JSON.stringify({ id, created: 1, model, choices: [{ text, model: "inner" }] })}\n\n`
        ).join("") + "data: [DONE]\n\n";
      const renamed = new ModelRename(asked).events(encode(stream("org/engine")));
      assert.equal(decode(renamed), stream(asked));
    },
  ));
});

test("answers without a model, arrays and plain text are left as they are", () => {
  const rename = new ModelRename("asked");
  for (
    const text of ['{"error":{"model":"x"}}', '[{"model":"x"}]', "Internal Server Error", '{"model":3}', "{"]
  ) {
    assert.equal(decode(rename.answer(encode(text))), text);
  }
  assert.equal(
    decode(rename.answer(encode(' {"a":[{}],"model" : "x"}\n'))),
    ' {"a":[{}],"model" : "asked"}\n',
  );
});
