import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import type { CacheGrowth, CacheLayout } from "../../../embedded/cache/cache_layout.ts";
import { type Extension, KeyValuePool, type KeyValues, sizeFor } from "../../../embedded/cache/key_values.ts";
import { PrefixCache } from "../../../embedded/cache/prefix_cache.ts";

const layout: CacheLayout = [
  { type: "float32", heads: 2, headDimensions: 3 },
  { type: "float16", heads: 1, headDimensions: 2 },
];

const growths: readonly CacheGrowth[] = ["copies", "appends"];

/** Numbers of a token's keys and values in a head: a hash of all tokens up to it. */
function hashes(ids: readonly number[], index: number, head: number): number[] {
  let hash = index * 10 + head;
  return ids.map((id) => hash = (hash * 31 + id + 1) % 65_521);
}

/** Does what a model does in a step: `room.into` holds `ids` then; what is before is copied where it is elsewhere. */
function compute(ids: readonly number[], { from, into }: Extension): KeyValues {
  const before = from?.tokens ?? 0;
  for (const [index, { heads, headDimensions }] of layout.entries()) {
    for (let head = 0; head < heads; head++) {
      const at = (room: KeyValues, tokens: number, row: number) =>
        (head * room.rows(tokens) + row) * headDimensions;
      const to = into.tensors[index]!;
      if (from !== undefined && from !== into) {
        const start = at(from, before, 0);
        to.set(
          from.tensors[index]!.subarray(start, start + before * headDimensions),
          at(into, ids.length, 0),
        );
      }
      for (const [row, hash] of hashes(ids, index, head).entries()) {
        if (row < before) continue;
        const start = at(into, ids.length, row);
        to.fill(hash, start, start + headDimensions);
      }
    }
  }
  into.tokens = ids.length;
  return into;
}

function computed(pool: KeyValuePool, ids: readonly number[]): KeyValues | undefined {
  const room = pool.extend(undefined, 0, ids.length, 0);
  return room && compute(ids, room);
}

/** Its first tokens are `ids`. */
function assertHolds(found: KeyValues, ids: readonly number[]): void {
  assert.ok(found.tokens >= ids.length);
  for (const [index, { heads, headDimensions }] of layout.entries()) {
    for (let head = 0; head < heads; head++) {
      const start = head * found.rows(found.tokens) * headDimensions;
      const length = ids.length * headDimensions;
      const expected = hashes(ids, index, head).flatMap((hash) =>
        new Array<number>(headDimensions).fill(hash)
      );
      assert.deepEqual([...found.tensors[index]!.subarray(start, start + length)], expected);
    }
  }
}

const growth = fc.constantFrom(...growths);
const sequence = fc.array(fc.nat({ max: 2 }), { minLength: 1, maxLength: 12 });

function sharedPrefix(a: readonly number[], b: readonly number[]): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return at;
}

test("the longest prefix of all that was inserted is found, with its keys and values", () => {
  fc.assert(
    fc.property(fc.array(sequence, { maxLength: 20 }), sequence, growth, (inserted, asked, growth) => {
      const pool = new KeyValuePool(layout, growth, 100_000);
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
      assertHolds(pool.branch(source!, tokens)!, asked.slice(0, tokens));
    }),
  );
});

test("under a bound, what is found is right, and all memory comes back", () => {
  fc.assert(fc.property(fc.array(sequence, { maxLength: 60 }), growth, (asked, growth) => {
    const pool = new KeyValuePool(layout, growth, 64);
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
  const pool = new KeyValuePool(layout, "copies", 1000);
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
  const pool = new KeyValuePool(layout, "copies", 1000);
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
    const pool = new KeyValuePool(layout, "copies", 1000);
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

test("whoever goes on from a prefix, and wherever, what the others know of stays as it is", () => {
  const step = fc.record({
    who: fc.nat(),
    cut: fc.double({ min: 0, max: 1, noNaN: true }),
    more: fc.array(fc.nat({ max: 3 }), { maxLength: 9 }),
  });
  fc.assert(fc.property(fc.array(step, { maxLength: 60 }), growth, (steps, growth) => {
    const pool = new KeyValuePool(layout, growth, 100_000);
    const held: { ids: readonly number[]; keyValues: KeyValues }[] = [];
    for (const { who, cut, more } of steps) {
      if (more.length === 0) {
        held.splice(who % Math.max(1, held.length), 1)[0]?.keyValues.release();
        continue;
      }
      const parent = held[who % (held.length + 1)];
      const known = Math.ceil(cut * (parent?.ids.length ?? 0));
      const past = parent && known > 0 ? pool.branch(parent.keyValues, known) : undefined;
      const ids = [...parent?.ids.slice(0, known) ?? [], ...more];
      const room = pool.extend(past, known, more.length, 0)!;
      const inPlace = room.into === past;
      assert.equal(
        inPlace,
        growth === "appends" && past !== undefined && past.tokens === known && past.capacity >= ids.length,
      );
      held.push({ ids, keyValues: compute(ids, room) });
      past?.release();
      for (const one of held) assertHolds(one.keyValues, one.ids);
    }
    for (const { keyValues } of held) keyValues.release();
    assert.equal(pool.usedTokens, 0);
  }));
});

test("memory that is appended to grows by a quarter, so that little is copied", () => {
  const pool = new KeyValuePool(layout, "appends", 100_000);
  let past: KeyValues | undefined;
  let copied = 0;
  for (let known = 0; known < 4000; known++) {
    const { from, into } = pool.extend(past, known, 1, 1)!;
    if (into !== past) copied += known;
    assert.equal(from, into);
    assert.ok(into.capacity <= Math.max(32, 1.5 * (known + 1)), `${into.capacity} for ${known + 1}`);
    into.tokens = known + 1;
    past?.release();
    past = into;
  }
  assert.ok(copied < 5 * 4000, `${copied} tokens were copied`);
  assert.equal(pool.usedTokens, past!.capacity);
});
