import assert from "node:assert/strict";
import { test } from "node:test";
import { readBytes, readText } from "../../base/read_body.ts";

async function* bodyOf(...chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) {
    await Promise.resolve();
    yield chunk;
  }
}

test("a body is read whole, wherever its chunks cut a character", async () => {
  const bytes = new TextEncoder().encode("naïve 漢字 🌳");
  for (let cut = 0; cut <= bytes.length; cut++) {
    const body = bodyOf(bytes.subarray(0, cut), bytes.subarray(cut));
    assert.equal(await readText(body, bytes.length, "it"), "naïve 漢字 🌳");
  }
  assert.equal(await readText(bodyOf(), 0, "it"), "");
});

test("what is read is in memory of its own, which can be handed to a thread", async () => {
  const pooled = new Uint8Array(100).subarray(10, 20);
  const read = await readBytes(bodyOf(pooled), 10, "it");
  assert.notEqual(read.buffer, pooled.buffer);
  assert.equal(read.buffer.byteLength, 10);
});

test("a body that is too long is left, with an error that says what it is", async () => {
  let left = false;
  async function* endless(): AsyncGenerator<Uint8Array> {
    try {
      while (true) yield await Promise.resolve(new Uint8Array(4));
    } finally {
      left = true;
    }
  }
  await assert.rejects(readBytes(endless(), 10, "its answer"), /^Error: its answer is longer than 10 bytes$/);
  assert.ok(left);
});
