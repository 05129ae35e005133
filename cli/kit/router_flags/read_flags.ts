import { nearest } from "../../../base/nearest.ts";
import { UsageError } from "../args.ts";
import type { FlagVerdict, RouterFlag } from "./router_flag.ts";
import { ROUTER_FLAGS, ROUTER_SPELLINGS, routerFlag } from "./table.ts";

/** A router's command line: which flags were given, and with which values. */
export interface GivenFlags {
  /** The values of each flag that was given, of each time it was given, by its first spelling. */
  readonly given: ReadonlyMap<string, readonly (readonly string[])[]>;
  /** One line for each flag that is not in effect. */
  readonly notes: readonly string[];
}

/** Options of `readRouterFlags`. */
export interface ReadFlagsOptions {
  /** Environment: `CANOPY_ROUTER_WORKER_URLS` stands for `--worker-urls` where that is not given; blanks part its values. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Stands between the dashes and the names: `router-` in SGLang's launch_server. */
  readonly prefix?: string | undefined;
}

/**
 * Reads the command line of a router with the arities of its peers. Throws `UsageError` for a flag that nobody knows
 * (with the nearest name), for one that is refused, and for values that are missing or too many.
 */
export function readRouterFlags(args: readonly string[], { env, prefix = "" }: ReadFlagsOptions): GivenFlags {
  const given = new Map<string, string[][]>();
  for (let at = 0; at < args.length;) {
    const text = args[at++]!;
    if (!text.startsWith("--")) throw new UsageError(`Unexpected argument "${text}": routers take none`);
    const [, spelling = "", inline] = /^--([^=]*)(?:=([^]*))?$/.exec(text) ?? [];
    const found = spelling.startsWith(prefix) ? routerFlag(spelling.slice(prefix.length)) : undefined;
    if (found === undefined) throw unknownFlag(spelling, prefix);
    const values = inline === undefined ? [] : [inline];
    const most = found.flag.arity === "none" ? 0 : found.flag.arity === "one" ? 1 : Infinity;
    if (inline === undefined) {
      while (values.length < most && at < args.length && !isFlag(args[at]!)) values.push(args[at++]!);
    }
    put(given, { ...found, spelling, values, most });
  }
  for (const [name, flag] of Object.entries(ROUTER_FLAGS)) {
    if (!given.has(name) && prefix === "") fromEnvironment(given, { name, flag, env });
  }
  const notes: string[] = [];
  for (const [name, times] of given) {
    const verdict = verdictOf(ROUTER_FLAGS[name]!, times.at(-1)?.[0]);
    const sentence = `Option --${prefix}${name}: ${verdict.says}`;
    if (verdict.kind === "refused") throw new UsageError(sentence);
    if (verdict.kind === "noted") notes.push(sentence);
  }
  return { given, notes };
}

/** A flag's fate, which may depend on its value. */
export function verdictOf({ verdict, values }: RouterFlag, value: string | undefined): FlagVerdict {
  return (value === undefined ? undefined : values?.[value]) ?? verdict;
}

/** True for what begins an option rather than being a value; negative numbers are values. */
export function isFlag(text: string): boolean {
  return /^--?[a-zA-Z]/.test(text);
}

function put(
  given: Map<string, string[][]>,
  { name, flag, spelling, values, most }: {
    name: string;
    flag: RouterFlag;
    spelling: string;
    values: string[];
    most: number;
  },
): void {
  if (values.length > most) {
    throw new UsageError(`Option --${spelling} takes no value: current value is "${values[0]}"`);
  }
  const least = flag.arity === "one" || flag.arity === "some" ? 1 : 0;
  if (values.length < least) {
    throw new UsageError(`Option --${spelling} needs a value: write --${spelling} VALUE`);
  }
  given.set(name, flag.repeats === true ? [...(given.get(name) ?? []), values] : [values]);
}

/** Puts in the flag that a variable stands for. Throws `UsageError` for a switch that is neither on nor off. */
function fromEnvironment(
  given: Map<string, string[][]>,
  { name, flag, env }: { name: string; flag: RouterFlag; env: ReadFlagsOptions["env"] },
): void {
  const variable = variableOf(name);
  const text = env[variable]?.trim();
  if (text === undefined || text === "") return;
  if (flag.arity === "none") {
    if (/^(?:1|true|yes|on)$/i.test(text)) given.set(name, [[]]);
    else if (!/^(?:0|false|no|off)$/i.test(text)) {
      throw new UsageError(`${variable} must be true or false: current value is "${text}"`);
    }
  } else if (flag.arity === "one" && flag.repeats !== true) given.set(name, [[text]]);
  else if (flag.repeats !== true) given.set(name, [text.split(/[\s,]+/)]);
  // A comma parts one time from the next; of a prefill server and its port, a blank parts the two.
  else if (flag.arity === "some") given.set(name, text.split(/\s*,\s*/).map((one) => one.split(/\s+/)));
  else given.set(name, text.split(/[\s,]+/).map((one) => [one]));
}

/** The environment variable that stands for a flag. */
export function variableOf(name: string): string {
  return `CANOPY_ROUTER_${name.toUpperCase().replaceAll("-", "_")}`;
}

function unknownFlag(spelling: string, prefix: string): UsageError {
  const near = nearest(spelling, [...ROUTER_SPELLINGS.map((one) => prefix + one), "help"]);
  return new UsageError(
    `Unknown option --${spelling}` + (near === undefined ? "" : `: did you mean --${near}?`),
  );
}
