import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCharacter, fc } from "../properties.ts";
import { fnv1a, Random, systemSeed } from "../../base/random.ts";

const GOLDEN_UINT32 = [1744369432, 1880769115, 1883439141, 1975227067, 732747953, 922626337];
const GOLDEN_MIXED = [0.49445621421400576, 168, "a", "78309b08904f530702d6", 3785265694831787];

test("Random gives the same numbers on every runtime", () => {
  const random = new Random("canopy");
  assert.deepEqual(Array.from({ length: 6 }, () => random.uint32()), GOLDEN_UINT32);
  const mixed = new Random("canopy").stream("agent l1.c1.a1");
  assert.deepEqual(
    [mixed.next(), mixed.int(1000), mixed.pick(["a", "b", "c"]), mixed.hex(20), mixed.int(2 ** 53 - 1)],
    GOLDEN_MIXED,
  );
});

test("Random is xoshiro128** of the cyrb128 hash of its seed", () => {
  // The same algorithm, written once more with BigInt.
  const MASK = 0xffffffffn;
  const rotl = (x: bigint, k: bigint) => ((x << k) | (x >> (32n - k))) & MASK;
  const reference = (text: string) => {
    const factors = [597399067n, 2869860233n, 951274213n, 2716044179n] as const;
    let [a, b, c, d] = [1779033703n, 3144134277n, 1013904242n, 2773480762n];
    for (let i = 0; i < text.length; i++) {
      const unit = BigInt(text.charCodeAt(i));
      a = b ^ (((a ^ unit) * factors[0]) & MASK);
      b = c ^ (((b ^ unit) * factors[1]) & MASK);
      c = d ^ (((c ^ unit) * factors[2]) & MASK);
      d = a ^ (((d ^ unit) * factors[3]) & MASK);
    }
    a = ((c ^ (a >> 18n)) * factors[0]) & MASK;
    b = ((d ^ (b >> 22n)) * factors[1]) & MASK;
    c = ((a ^ (c >> 17n)) * factors[2]) & MASK;
    d = ((b ^ (d >> 19n)) * factors[3]) & MASK;
    a ^= b ^ c ^ d;
    b ^= a;
    c ^= a;
    d ^= a;
    return () => {
      const result = (rotl((b * 5n) & MASK, 7n) * 9n) & MASK;
      const t = (b << 9n) & MASK;
      c ^= a;
      d ^= b;
      b ^= c;
      a ^= d;
      c ^= t;
      d = rotl(d, 11n);
      return Number(result);
    };
  };
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), (seed) => {
      const random = new Random(seed);
      const expected = reference(seed);
      for (let draw = 0; draw < 20; draw++) assert.equal(random.uint32(), expected());
    }),
    { numRuns: 60 },
  );
});

test("a stream of Random does not depend on what was drawn from its parent or its siblings", () => {
  const parent = new Random("seed");
  const before = parent.stream("a").hex(16);
  for (let draw = 0; draw < 10; draw++) parent.next();
  parent.stream("b").next();
  assert.equal(parent.stream("a").hex(16), before);
});

test("a hundred thousand streams of Random are all different", () => {
  const root = new Random("seed");
  const first = new Set<string>();
  for (let id = 0; id < 100_000; id++) first.add(root.stream(`run ${id}`).hex(16));
  assert.equal(first.size, 100_000);
});

test("draws of two streams are not correlated", () => {
  const a = new Random("seed").stream("a");
  const b = new Random("seed").stream("b");
  let product = 0;
  const draws = 50_000;
  for (let draw = 0; draw < draws; draw++) product += (a.next() - 0.5) * (b.next() - 0.5) * 12;
  // Standard deviation of the mean product: 1/√draws.
  assert.ok(Math.abs(product / draws) < 4 / Math.sqrt(draws));
});

test("Random.int is uniform: χ² of 64 cells over 64,000 draws is within its bounds", () => {
  for (const seed of ["a", "b", "c"]) {
    const random = new Random(seed);
    const cells = new Array<number>(64).fill(0);
    for (let draw = 0; draw < 64_000; draw++) cells[random.int(64)]! += 1;
    const chiSquare = cells.reduce((sum, count) => sum + (count - 1000) ** 2 / 1000, 0);
    // 63 degrees of freedom: 99.99 % of values lie between 27 and 114.
    assert.ok(chiSquare > 27 && chiSquare < 114, `χ² is ${chiSquare}`);
  }
});

test("Random.normal and Random.exponential have the moments of their distributions", () => {
  const random = new Random("moments");
  const draws = 50_000;
  let sum = 0;
  let squares = 0;
  let exponential = 0;
  for (let draw = 0; draw < draws; draw++) {
    const x = random.normal();
    sum += x;
    squares += x * x;
    const y = random.exponential(3);
    assert.ok(y >= 0 && Number.isFinite(y));
    exponential += y;
  }
  assert.ok(Math.abs(sum / draws) < 0.02);
  assert.ok(Math.abs(squares / draws - 1) < 0.03);
  assert.ok(Math.abs(exponential / draws - 3) < 0.06);
});

test("Random stays within its ranges", () => {
  fc.assert(
    fc.property(fc.string(), fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }), (seed, bound) => {
      const random = new Random(seed);
      const x = random.next();
      assert.ok(x >= 0 && x < 1);
      const whole = random.int(bound);
      assert.ok(Number.isInteger(whole) && whole >= 0 && whole < bound);
      assert.match(random.hex(13), /^[0-9a-f]{13}$/);
    }),
  );
  for (const bound of [0, -1, 1.5, NaN]) {
    assert.throws(() => new Random("x").int(bound), new RegExp(`current value is ${bound}`));
  }
  assert.throws(() => new Random("x").pick([]), RangeError);
});

test("fnv1a is the published function over two bytes per code unit", () => {
  assert.equal(fnv1a(""), 0x811c9dc5);
  // The bytes 61 00: FNV-1a by hand.
  const byHand = Math.imul(Math.imul(0x811c9dc5 ^ 0x61, 0x01000193) ^ 0, 0x01000193) >>> 0;
  assert.equal(fnv1a("a"), byHand);
  assert.notEqual(fnv1a("\u0100"), fnv1a("\u0000"));
});

test("systemSeed gives 128 bits in hexadecimal digits, other ones each time", () => {
  assert.match(systemSeed(), /^[0-9a-f]{32}$/);
  assert.notEqual(systemSeed(), systemSeed());
});
