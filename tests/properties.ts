import process from "node:process";
import fc from "fast-check";

/** What properties and samples begin with when nobody asks for another; any number would do. */
const DEFAULT_SEED = 14;

/**
 * The seed of all properties and samples of a test run: the same in every run, so that a change alone can turn a test
 * red, unless `CANOPY_SEED` holds another number, or `random`, as under `deno task test:stress`.
 */
export const SEED = seedOf(process.env["CANOPY_SEED"]);

/**
 * How many cases a test plays: `usual` of them, or with `CANOPY_TIMES=10` ten times as many. The usual number is small,
 * since the suite is run many times a day; whoever changes what the test is about plays more.
 */
export function often(usual: number): number {
  return Math.ceil(usual * TIMES);
}

const TIMES = Number(process.env["CANOPY_TIMES"] || 1);
if (!(TIMES > 0)) {
  throw new Error(`CANOPY_TIMES must be a number above 0: current value is "${process.env["CANOPY_TIMES"]}"`);
}

function seedOf(asked: string | undefined): number {
  if (asked === undefined || asked === "") return DEFAULT_SEED;
  if (asked === "random") return Math.floor(Math.random() * 2 ** 31);
  const seed = Number(asked);
  if (Number.isInteger(seed) && Math.abs(seed) < 2 ** 31) return seed;
  throw new Error(`CANOPY_SEED must be "random" or an integer below 2^31: current value is "${asked}"`);
}

fc.configureGlobal({
  seed: SEED,
  reporter: (details) => {
    if (!details.failed) return;
    const message = `${fc.defaultReportMessage(details)}\nThe same again: CANOPY_SEED=${SEED}`;
    throw new Error(message, { cause: details.errorInstance });
  },
});

const SURROGATES = { first: 0xd800, count: 0x800 } as const;
const LAST_CHARACTER = 0x10ffff;

/**
 * Any character: `fc.string({ unit: anyCharacter })` draws what `unit: "binary"` draws. For that fast-check first looks up
 * all of them, which takes half a second in each file.
 */
export const anyCharacter: fc.Arbitrary<string> = fc.nat({ max: LAST_CHARACTER - SURROGATES.count }).map(
  (at) => String.fromCodePoint(at < SURROGATES.first ? at : at + SURROGATES.count),
  (text) => {
    const code = typeof text === "string" ? text.codePointAt(0) : undefined;
    if (code === undefined || text !== String.fromCodePoint(code) || /^[\ud800-\udfff]$/.test(text)) {
      throw new Error("not one character");
    }
    return code < SURROGATES.first ? code : code - SURROGATES.count;
  },
);

/** fast-check with the seed of this run; a failure says how to have it again. */
export { fc };
