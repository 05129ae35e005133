import type { Json } from "./json.ts";

declare global {
  interface JSON {
    /** A value that `JSON.stringify` writes as the text says, digit by digit. */
    rawJSON(text: string): { rawJSON: string };
    isRawJSON(value: unknown): value is { rawJSON: string };
  }
}

/** A whole number of 64 bits with sign: a `bigint` where a `number` would not hold it exactly. */
export type Int64 = number | bigint;

const LIMIT = 2n ** 63n;

/** An `Int64` as JSON: also what a `number` cannot hold is written exactly. */
export function int64Json(value: Int64): Json {
  return typeof value === "number" ? value : JSON.rawJSON(String(value));
}

/** The `Int64` in a JSON value; undefined for anything else. */
export function readInt64(value: unknown): Int64 | undefined {
  if (typeof value === "number") return Number.isSafeInteger(value) ? value : undefined;
  if (!JSON.isRawJSON(value) || !/^-?\d{1,19}$/.test(value.rawJSON)) return undefined;
  const exact = BigInt(value.rawJSON);
  return exact >= -LIMIT && exact < LIMIT ? exact : undefined;
}

/** The sum, which begins anew at the other end of the range. */
export function addInt64(value: Int64, step: number): Int64 {
  const sum = Number(value) + step;
  return typeof value === "number" && Number.isSafeInteger(sum)
    ? sum
    : BigInt.asIntN(64, BigInt(value) + BigInt(step));
}

/** What tells a text with such a member, by the list of members: such lists are constants. */
const LONG_NUMBERS = new WeakMap<readonly string[], RegExp>();

/** Parses JSON; whole numbers of these members that a `number` cannot hold stay exact, for `readInt64`. */
export function parseJsonExactly(text: string, members: readonly string[]): Json {
  let mayHave = LONG_NUMBERS.get(members);
  if (mayHave === undefined) {
    mayHave = new RegExp(`"(?:${members.join("|")})"\\s*:\\s*-?\\d{16}`);
    LONG_NUMBERS.set(members, mayHave);
  }
  if (!mayHave.test(text)) return JSON.parse(text);
  return JSON.parse(text, (name, value: unknown, context?: { readonly source?: string }) => {
    const source = context?.source;
    return typeof value === "number" && source !== undefined && members.includes(name) &&
        Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(source)
      ? JSON.rawJSON(source)
      : value;
  });
}
