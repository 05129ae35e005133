import { readFile, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { CanopyError } from "../../base/errors.ts";
import { isJsonObject } from "../../base/json.ts";
import type { Arithmetic } from "./products.ts";
import { weightBytes } from "./weight_bytes.ts";

/** File in a model's folder with the numbers that its exports should give, written by `canopy models record`. */
export const CHECK_FILE = "canopy_check.json";

/** Files whose numbers are taken for right, the best one first. */
export const FLOAT_FILES: readonly string[] = ["model.onnx", "model_fp16.onnx"];

/** Largest file of floats that is loaded beside another one for a check, in bytes. */
const MAX_FLOAT_BYTES = 2 ** 30;

/** Numbers that are kept of each vector. */
const MAX_NUMBERS = 256;

/**
 * Least correlations: of products of 8 bits and of weights of few bits with the numbers of floats, and with those of the
 * same file on another machine. A model of 135 M parameters has 0.96 in 8 bits and 0.92 in 4; products that saturate
 * were seen at 0.87.
 */
const LEAST = { products: 0.9, weights: 0.8, same: 0.98 };

/** Sentences that a model is tried with. */
export const CHECK_TEXTS = [
  "The capital of France is Paris, and the Seine runs through it.",
  "def area(radius):\n    return 3.14159 * radius ** 2",
  "Water boils at 100 degrees Celsius at sea level; in the mountains it boils at less.",
  "Es war einmal ein König, der hatte drei Töchter, und die jüngste war die klügste.",
];

/** A model whose numbers can be compared. */
export interface CheckedModel {
  readonly arithmetic: Arithmetic;
  /** Numbers after the last token of a text: logits, or features. */
  numbersAfter(ids: readonly number[]): Promise<Float32Array>;
  close(): Promise<void>;
}

/** Comparison of a file's numbers with those that it should give; part of every trace. */
export interface NumbersCheck {
  /** File that gave the right numbers. */
  readonly against: string;
  /** Mean correlation over the texts; 1: the same. */
  readonly agreement: number;
  /** With less the numbers are wrong. */
  readonly least: number;
}

/** Numbers of a model for some texts, as `CHECK_FILE` has them. */
export interface RecordedNumbers {
  /** The ONNX file that gave them. */
  readonly file: string;
  readonly texts: readonly { readonly ids: readonly number[]; readonly numbers: readonly number[] }[];
}

/** Options of `checkNumbers`. */
export interface CheckNumbersOptions {
  /** With `CHECK_FILE`, if there is one. */
  readonly folder: string;
  /** The ONNX file in use. */
  readonly path: string;
  readonly model: CheckedModel;
  /** Texts to compare it with a file of floats by. */
  readonly texts: readonly (readonly number[])[];
  /** Opens a file of floats that lies beside it. */
  readonly open: (path: string) => Promise<CheckedModel>;
}

/**
 * Compares a model's numbers with recorded ones, else with those of the floats that lie beside it, if they are at most
 * 1 GiB. Undefined where there is nothing to compare with. Throws 500 `invalid_check_file` when `CHECK_FILE` is none.
 */
export async function checkNumbers(options: CheckNumbersOptions): Promise<NumbersCheck | undefined> {
  const { folder, path, model, texts, open } = options;
  const file = basename(path);
  const recorded = await readRecorded(join(folder, CHECK_FILE));
  if (recorded !== undefined) return await compare(file, model, recorded);
  const floats = FLOAT_FILES.includes(file) ? undefined : await floatsBeside(path);
  if (floats === undefined) return undefined;
  const right = await open(floats);
  try {
    return await compare(file, model, await recordNumbers(basename(floats), right, texts));
  } finally {
    await right.close();
  }
}

/** Computes what `CHECK_FILE` keeps of a model. */
export async function recordNumbers(
  file: string,
  model: Pick<CheckedModel, "numbersAfter">,
  texts: readonly (readonly number[])[],
): Promise<RecordedNumbers> {
  const kept = [];
  for (const ids of texts) {
    kept.push({
      ids,
      numbers: sampled(await model.numbersAfter(ids)).map((value) => Number(value.toPrecision(7))),
    });
  }
  return { file, texts: kept };
}

/** What is wrong with a file's numbers, with the remedy; undefined when they are as they should be. */
export function wrongNumbers(file: string, check: NumbersCheck, setting: string): string | undefined {
  const { against, agreement, least } = check;
  if (agreement >= least) return undefined;
  const remedy = against === file
    ? "fetch it again, and set it to a file with unsigned weights or floats if that does not help"
    : `set ${setting} to ${against}, or to a file with unsigned weights`;
  return `${file} does not give the numbers of ${against} (correlation ${agreement.toFixed(3)}, at least ` +
    `${least} is usual), so answers are not to be trusted: ${remedy}`;
}

async function compare(
  file: string,
  model: CheckedModel,
  right: RecordedNumbers,
): Promise<NumbersCheck> {
  let sum = 0;
  for (const { ids, numbers } of right.texts) {
    sum += correlation(sampled(await model.numbersAfter(ids)), numbers);
  }
  const agreement = Number((sum / right.texts.length).toFixed(4));
  const least = model.arithmetic.products === "none" ? LEAST.weights : LEAST.products;
  return { against: right.file, agreement, least: right.file === file ? LEAST.same : least };
}

/** At most 256 of them, evenly spread. */
function sampled(numbers: Float32Array): number[] {
  const step = Math.max(1, Math.floor(numbers.length / MAX_NUMBERS));
  return Array.from(numbers).filter((_, index) => index % step === 0).slice(0, MAX_NUMBERS);
}

/** Pearson's; 0 where it is not defined, or lengths differ. */
function correlation(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length) return 0;
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [meanA, meanB] = [mean(a), mean(b)];
  let [product, squaresA, squaresB] = [0, 0, 0];
  for (const [index, value] of a.entries()) {
    const [x, y] = [value - meanA, b[index]! - meanB];
    product += x * y;
    squaresA += x * x;
    squaresB += y * y;
  }
  const found = product / Math.sqrt(squaresA * squaresB);
  return Number.isFinite(found) ? found : 0;
}

async function floatsBeside(path: string): Promise<string | undefined> {
  for (const name of FLOAT_FILES) {
    const floats = join(dirname(path), name);
    const found = await stat(floats).then((file) => file.isFile(), () => false);
    if (found && await weightBytes(floats) <= MAX_FLOAT_BYTES) return floats;
  }
  return undefined;
}

async function readRecorded(path: string): Promise<RecordedNumbers | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch {
    return undefined;
  }
  const refuse = () =>
    new CanopyError(`Cannot read ${path}: remove it, or have it written again by canopy models record`, {
      code: "invalid_check_file",
      status: 500,
    });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw refuse();
  }
  if (!isJsonObject(value) || typeof value.file !== "string" || !Array.isArray(value.texts)) throw refuse();
  const texts = value.texts.map((one) => {
    const { ids, numbers } = isJsonObject(one) ? one : {};
    if (!areNumbers(ids) || !areNumbers(numbers)) throw refuse();
    return { ids, numbers };
  });
  if (texts.length === 0) throw refuse();
  return { file: value.file, texts };
}

function areNumbers(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === "number");
}
