import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { copied } from "../../../base/bytes.ts";
import { ByteBlocks } from "../../../router/wire/byte_blocks.ts";

test("blocks hold what was appended, in its order", () => {
  fc.assert(fc.property(fc.array(fc.uint8Array({ maxLength: 6000 })), (pieces) => {
    const blocks = new ByteBlocks();
    for (const piece of pieces) blocks.append(piece);
    assert.deepEqual(copied(blocks.blocks), copied(pieces));
    assert.equal(blocks.length, copied(pieces).length);
  }));
});

test("thousands of pieces are in few blocks, and a short text takes a short one", () => {
  const blocks = new ByteBlocks();
  const piece = new Uint8Array(700).fill(7);
  blocks.append(piece);
  assert.ok(blocks.blocks[0]!.buffer.byteLength <= 4096);
  for (let at = 1; at < 10_000; at++) blocks.append(piece);
  assert.equal(blocks.length, 7_000_000);
  assert.ok(blocks.blocks.length <= 16, `${blocks.blocks.length} blocks`);
});
