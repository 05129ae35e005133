import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Random } from "../../../base/random.ts";
import { cosine } from "../../../scorer/similarity/similarity.ts";
import { Whitening } from "../../../scorer/similarity/whitening.ts";

const WIDTH = 12;

/** Vectors as language models give them: much in common, and few directions with most of the rest. */
function vectors(seed: string, count: number): Float32Array[] {
  const random = new Random(seed);
  return Array.from(
    { length: count },
    () => Float32Array.from({ length: WIDTH }, (_, i) => 2 + (i === 0 ? 3 : 0.3 / (i + 1)) * random.normal()),
  );
}

async function inFolder(main: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "canopy-whitening-"));
  try {
    await main(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

const background = vectors("background", 400);

test("unrelated vectors that all look alike have a cosine about 0 afterwards, and a vector with itself 1", () => {
  const whitening = Whitening.fit("m", background);
  const others = vectors("others", 60);
  const meanOf = (of: readonly ArrayLike<number>[]) => {
    let sum = 0;
    for (let i = 1; i < of.length; i++) sum += cosine(of[i - 1]!, of[i]!);
    return sum / (of.length - 1);
  };
  assert.ok(meanOf(others) > 0.7, `${meanOf(others)}`);
  const white = others.map((vector) => whitening.apply(vector));
  assert.ok(Math.abs(meanOf(white)) < 0.15, `${meanOf(white)}`);
  assert.ok(cosine(white[0]!, white[0]!) > 1 - 1e-6);
});

test("cosines are those of (x - μ)ᵀ (0.7 C + 0.3 λ̄ I)⁻¹ (y - μ), whatever the length of the vectors", () => {
  const units = background.map((vector) => {
    const length = Math.hypot(...vector);
    return [...vector].map((value) => value / length);
  });
  const mean = units[0]!.map((_, i) => units.reduce((sum, vector) => sum + vector[i]!, 0) / units.length);
  const centred = units.map((vector) => vector.map((value, i) => value - mean[i]!));
  const covariance = mean.map((_, i) =>
    mean.map((_, j) => centred.reduce((sum, vector) => sum + vector[i]! * vector[j]!, 0) / units.length)
  );
  const level = covariance.reduce((sum, row, i) => sum + row[i]!, 0) / WIDTH;
  const mixed = covariance.map((row, i) => row.map((value, j) => 0.7 * value + (i === j ? 0.3 * level : 0)));
  const product = (x: readonly number[], y: readonly number[]) => {
    const z = solve(mixed, y);
    return x.reduce((sum, value, i) => sum + value * z[i]!, 0);
  };
  const whitening = Whitening.fit("m", background);
  for (let i = 1; i < 20; i++) {
    const [x, y] = [centred[i - 1]!, centred[i]!];
    const expected = product(x, y) / Math.sqrt(product(x, x) * product(y, y));
    const scaled = background[i]!.map((value) => 7 * value);
    const found = cosine(whitening.apply(background[i - 1]!), whitening.apply(scaled));
    assert.ok(Math.abs(found - expected) < 1e-4, `${found} instead of ${expected}`);
  }
});

/** Gauss with pivots. */
function solve(matrix: readonly (readonly number[])[], right: readonly number[]): number[] {
  const rows = matrix.map((row, i) => [...row, right[i]!]);
  for (let i = 0; i < rows.length; i++) {
    let pivot = i;
    for (let k = i; k < rows.length; k++) if (Math.abs(rows[k]![i]!) > Math.abs(rows[pivot]![i]!)) pivot = k;
    [rows[i], rows[pivot]] = [rows[pivot]!, rows[i]!];
    for (let k = 0; k < rows.length; k++) {
      if (k === i) continue;
      const factor = rows[k]![i]! / rows[i]![i]!;
      rows[k] = rows[k]!.map((value, j) => value - factor * rows[i]![j]!);
    }
  }
  return rows.map((row, i) => row.at(-1)! / row[i]!);
}

test("a calibration file gives the same numbers when it is read, and says what it was made with", () =>
  inFolder(async (folder) => {
    const path = join(folder, "m.safetensors");
    const written = Whitening.fit("Qwen/Qwen3-Embedding-0.6B", background);
    await written.write(path);
    const read = await Whitening.read(path);
    assert.deepEqual(read.source, { model: "Qwen/Qwen3-Embedding-0.6B", texts: 400 });
    assert.equal(read.dimensions, WIDTH);
    assert.deepEqual(read.apply(background[0]!), written.apply(background[0]!));
  }));

test("a file that is none, cut or not finite is refused by its name", () =>
  inFolder(async (folder) => {
    const path = join(folder, "m.safetensors");
    await Whitening.fit("m", background).write(path);
    const bytes = await readFile(path);
    const refused = async (content: Uint8Array | string, reason: RegExp) => {
      await writeFile(path, content);
      await assert.rejects(Whitening.read(path), (error: Error) => {
        assert.ok(error.message.startsWith(`Cannot read the calibration file ${path}: `));
        assert.match(error.message, reason);
        return true;
      });
    };
    await refused("", /it is no safetensors file/);
    await refused("x".repeat(100), /it is no safetensors file/);
    await refused(bytes.subarray(0, bytes.length - 4), /it has no whole tensor factor/);
    const other = new TextDecoder("latin1").decode(bytes).replace("canopy-whitening-1", "somebody-elses-own");
    await refused(Uint8Array.from(other, (c) => c.charCodeAt(0)), /it is not a calibration file of Canopy/);
    const spoilt = Uint8Array.from(bytes);
    spoilt.fill(0xff, bytes.length - 4);
    await refused(spoilt, /numbers that are not finite/);
    spoilt.fill(0, bytes.length - 4);
    await refused(spoilt, /its factor has no inverse/);
    await assert.rejects(Whitening.read(join(folder, "none")), /Cannot read the calibration file .*none: /);
  }));

test("vectors that teach nothing, and vectors of another model, are refused", () => {
  const one = Float32Array.of(1, 2);
  assert.throws(() => Whitening.fit("m", []), /it takes two vectors of one width: there are 0/);
  assert.throws(() => Whitening.fit("m", [one, Float32Array.of(1, 2, 3)]), /of one width/);
  assert.throws(() => Whitening.fit("m", [one, one]), /the vectors are all the same/);
  assert.throws(() => Whitening.fit("m", [one, Float32Array.of(NaN, 1)]), /or not finite/);
  assert.throws(
    () => Whitening.fit("m", background).apply(one),
    /is of 12 dimensions \(m\), the vector has 2/,
  );
});
