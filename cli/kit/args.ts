import { parseArgs as nodeParseArgs } from "node:util";
import { nearest } from "../../base/nearest.ts";

/** Options of `parseArgs`, named as in `@std/cli`, so that one can take the other's place. */
export interface ParseOptions {
  /** Options that take a value. */
  readonly string?: readonly string[];
  /** Options that are true when present. */
  readonly boolean?: readonly string[];
  /** String options that may be repeated; their values form a list. */
  readonly collect?: readonly string[];
  /** Boolean options that `--no-NAME` sets to false. */
  readonly negatable?: readonly string[];
  /** Other spellings of an option: `{ help: ["h"] }`. */
  readonly alias?: Readonly<Record<string, readonly string[]>>;
}

/** A parsed command line: options under their first spelling, and all else in `_`. */
export interface ParsedArgs {
  readonly _: readonly string[];
  readonly values: ReadonlyMap<string, boolean | string | readonly string[]>;
}

/** The command line cannot be understood; the program ends with exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/**
 * Parses a command line. `--name value`, `--name=value`, `-n value`, `--flag`, `--no-flag`; everything after `--`
 * is positional. Throws a `UsageError` for an unknown option (with the nearest known one), for a missing value and
 * for a value given to a flag.
 */
export function parseArgs(args: readonly string[], options: ParseOptions): ParsedArgs {
  const booleans = new Set(options.boolean);
  const strings = new Set(options.string);
  const collect = new Set(options.collect);
  const negatable = new Set(options.negatable);
  const canonical = new Map<string, string>();
  for (const name of [...booleans, ...strings]) canonical.set(name, name);
  for (const [name, aliases] of Object.entries(options.alias ?? {})) {
    for (const alias of aliases) canonical.set(alias, name);
  }
  const table: Record<string, { type: "boolean" | "string"; short?: string }> = {};
  for (const [spelling, name] of canonical) {
    const type = booleans.has(name) ? "boolean" : "string";
    if (spelling.length > 1) table[spelling] = { type };
    else table[`short ${spelling}`] = { type, short: spelling };
  }

  const positional: string[] = [];
  const values = new Map<string, boolean | string | string[]>();
  // Not strict: the messages for what is wrong are ours.
  const { tokens } = nodeParseArgs({
    args: [...args],
    options: table,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  for (const token of tokens ?? []) {
    if (token.kind === "positional") positional.push(token.value);
    if (token.kind !== "option") continue;
    const spelling = token.name.replace(/^short /, "");
    const name = canonical.get(spelling);
    if (name === undefined) {
      const positive = spelling.startsWith("no-") ? canonical.get(spelling.slice(3)) : undefined;
      if (positive !== undefined && negatable.has(positive)) {
        values.set(positive, false);
        continue;
      }
      throw unknownOption(token.rawName, canonical);
    } else if (booleans.has(name)) {
      if (token.value !== undefined) {
        throw new UsageError(`Option ${token.rawName} takes no value: current value is "${token.value}"`);
      }
      values.set(name, true);
    } else {
      if (token.value === undefined || (!token.inlineValue && /^--?[a-zA-Z]/.test(token.value))) {
        throw new UsageError(`Option ${token.rawName} needs a value: write ${token.rawName}=VALUE`);
      }
      const earlier = values.get(name);
      values.set(
        name,
        collect.has(name) ? [...(Array.isArray(earlier) ? earlier : []), token.value] : token.value,
      );
    }
  }
  return { _: positional, values };
}

function unknownOption(rawName: string, canonical: ReadonlyMap<string, string>): UsageError {
  const spellings = [...canonical.keys()].filter((spelling) => spelling.length > 1);
  const suggestion = nearest(rawName.replace(/^-+/, ""), spellings);
  return new UsageError(
    `Unknown option ${rawName}` + (suggestion === undefined ? "" : `: did you mean --${suggestion}?`),
  );
}

/** A number as an option's value, whole unless it may be a `fraction`. Throws `UsageError`. */
export function readNumber(
  name: string,
  text: string,
  { fraction, min = -Infinity, max = Infinity }: {
    readonly fraction?: boolean | undefined;
    readonly min?: number | undefined;
    readonly max?: number | undefined;
  } = {},
): number {
  const number = text.trim() === "" ? NaN : Number(text);
  const fits = fraction ? Number.isFinite(number) : Number.isSafeInteger(number);
  if (fits && number >= min && number <= max) return number;
  const range = Number.isFinite(max)
    ? ` from ${min} to ${max}`
    : Number.isFinite(min)
    ? ` of at least ${min}`
    : "";
  throw new UsageError(
    `Option --${name} must be a ${fraction ? "" : "whole "}number${range}: current value is "${text}"`,
  );
}
