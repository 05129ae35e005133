import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type CacheLayout, KeyValuePool, type KeyValues, sizeFor } from "../../embedded/key_values.ts";
import { PrefixCache } from "../../embedded/prefix_cache.ts";

const layout: CacheLayout = [
  { type: "float32", heads: 2, headDimensions: 3 },
  { type: "float16", heads: 1, headDimensions: 2 },
];

/** Keys and values that tell which tokens they are of: each number is its token's hash of all that is before it. */
function computed(pool: KeyValuePool, ids: readonly number[]): KeyValues | undefined {
  const room = pool.take(ids.length);
  if (room === undefined) return undefined;
  for (const [index, { heads, headDimensions }] of layout.entries()) {
    for (let head = 0; head < heads; head++) {
      let hash = index * 10 + head;
      for (const [at, id] of ids.entries()) {
        hash = (hash * 31 + id + 1) % 65_521;
        const start = (head * ids.length + at) * headDimensions;
        room.tensors[index]!.fill(hash, start, start + headDimensions);
      }
    }
  }
  room.tokens = ids.length;
  return room;
}

function assertHolds(found: KeyValues, ids: readonly number[]): void {
  const expected = computed(new KeyValuePool(layout, 10_000), ids)!;
  assert.equal(found.tokens, ids.length);
  for (const [index, { heads, headDimensions }] of layout.entries()) {
    const length = heads * ids.length * headDimensions;
    assert.deepEqual(
      found.tensors[index]!.slice(0, length),
      expected.tensors[index]!.slice(0, length),
    );
  }
}

const sequence = fc.array(fc.nat({ max: 2 }), { minLength: 1, maxLength: 12 });

function sharedPrefix(a: readonly number[], b: readonly number[]): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return at;
}

test("the longest prefix of all that was inserted is found, with its keys and values", () => {
  fc.assert(fc.property(fc.array(sequence, { maxLength: 20 }), sequence, (inserted, asked) => {
    const pool = new KeyValuePool(layout, 100_000);
    const cache = new PrefixCache();
    const prefixes = new Set<string>();
    for (const ids of inserted) {
      const room = computed(pool, ids)!;
      cache.insert(ids, room);
      room.release();
      for (let end = 1; end <= ids.length; end++) prefixes.add(ids.slice(0, end).join());
    }
    assert.equal(cache.tokens, prefixes.size);
    const { tokens, source } = cache.match(asked);
    assert.equal(tokens, Math.max(0, ...inserted.map((ids) => sharedPrefix(ids, asked))));
    if (tokens === 0) return assert.equal(source, undefined);
    assertHolds(pool.prefix(source!, tokens)!, asked.slice(0, tokens));
  }));
});

test("under a bound, what is found is right, and all memory comes back", () => {
  fc.assert(fc.property(fc.array(sequence, { maxLength: 60 }), (asked) => {
    const pool = new KeyValuePool(layout, 64);
    const cache = new PrefixCache();
    for (const ids of asked) {
      const { tokens, source } = cache.match(ids);
      if (source !== undefined) {
        source.retain();
        const whole = ids.slice(0, tokens);
        if (source.tokens === tokens) assertHolds(source, whole);
        source.release();
      }
      let room = computed(pool, ids);
      while (room === undefined) {
        assert.ok(cache.evict());
        room = computed(pool, ids);
      }
      cache.insert(ids, room);
      room.release();
      assert.ok(pool.usedTokens <= 64);
      assert.equal(cache.match(ids).tokens, ids.length);
    }
    while (cache.evict());
    assert.equal(pool.usedTokens, 0);
    assert.equal(cache.tokens, 0);
  }));
});

test("what was used longest ago goes first, and nothing that somebody holds", () => {
  const pool = new KeyValuePool(layout, 1000);
  const cache = new PrefixCache();
  const rooms = [[1, 1], [1, 2], [3]].map((ids) => {
    const room = computed(pool, ids)!;
    cache.insert(ids, room);
    return room;
  });
  assert.equal(cache.evict(), false);
  for (const room of rooms) room.release();
  cache.match([1, 1]);
  assert.ok(cache.evict());
  assert.deepEqual([[1, 1], [1, 2], [3]].map((ids) => cache.match(ids).tokens), [2, 1, 1]);
  assert.ok(cache.evict());
  assert.deepEqual([[1, 1], [1, 2], [3]].map((ids) => cache.match(ids).tokens), [0, 0, 1]);
});

test("a sequence that grows takes its memory along", () => {
  const pool = new KeyValuePool(layout, 1000);
  const cache = new PrefixCache();
  for (let length = 1; length <= 100; length++) {
    const ids = Array.from({ length }, (_, at) => at);
    const room = computed(pool, ids)!;
    cache.insert(ids, room);
    room.release();
    assert.equal(pool.usedTokens, sizeFor(length));
  }
});

test("memory that is given back is used again, and never more than the bound is taken", () => {
  fc.assert(fc.property(fc.array(fc.integer({ min: -8, max: 300 }), { maxLength: 80 }), (steps) => {
    const pool = new KeyValuePool(layout, 1000);
    const held: KeyValues[] = [];
    for (const step of steps) {
      if (step <= 0) held.splice(-step % Math.max(1, held.length), 1)[0]?.release();
      else {
        const room = pool.take(step);
        if (room === undefined) assert.ok(pool.usedTokens + sizeFor(step) > 1000);
        else {
          assert.ok(room.capacity >= step && room.tokens === 0 && !held.includes(room));
          held.push(room);
        }
      }
      assert.equal(pool.usedTokens, held.reduce((sum, { capacity }) => sum + capacity, 0));
      assert.ok(pool.usedTokens <= 1000);
    }
  }));
});
