/** Values that a flag takes, as argparse counts them: none; one; one or more; any number. */
export type Arity = "none" | "one" | "some" | "any";

/** Reading of a value: seconds become milliseconds, a list is all values of a flag. */
export type ValueForm = "text" | "count" | "number" | "milliseconds" | "seconds" | "list";

/** The setting that a flag stands for. */
export interface FlagSetting {
  /** Path in the configuration, such as `server.port`; `model.` is what every learned model gets. */
  readonly path: string;
  readonly form: ValueForm;
}

/** A flag's fate here. A refused one ends the start with exit code 2; of a noted one a line says what happens instead. */
export type FlagVerdict =
  | { readonly kind: "honoured"; readonly says: string; readonly setting?: FlagSetting | undefined }
  | { readonly kind: "noted"; readonly says: string }
  | { readonly kind: "refused"; readonly says: string };

/** One flag of a router whose command lines are understood. */
export interface RouterFlag {
  readonly arity: Arity;
  /** The peer's default as its help prints it; undefined for None, False and empty lists. */
  readonly there: string | undefined;
  readonly verdict: FlagVerdict;
  /** Given again, its values add up. */
  readonly repeats?: true;
  readonly aliases?: readonly string[];
  /** Another fate for some values. */
  readonly values?: Readonly<Record<string, FlagVerdict>>;
}

/** Flags by their name without dashes. */
export type RouterFlags = Readonly<Record<string, RouterFlag>>;

type More = Pick<RouterFlag, "repeats" | "aliases" | "values">;

/** In effect: `says` completes "here: …" in the table; without a setting, code by the flag's name does it. */
export function honoured(says: string, path?: string, form: ValueForm = "text"): FlagVerdict {
  return { kind: "honoured", says, setting: path === undefined ? undefined : { path, form } };
}

/** Not in effect; `says` is a sentence about what happens instead. */
export function noted(says: string): FlagVerdict {
  return { kind: "noted", says };
}

/** Not to be started with; `says` is a sentence about what to do. */
export function refused(says: string): FlagVerdict {
  return { kind: "refused", says };
}

/** A switch. */
export function bare(verdict: FlagVerdict, more: More = {}): RouterFlag {
  return { arity: "none", there: undefined, verdict, ...more };
}

/** A flag with one value. */
export function one(there: string | undefined, verdict: FlagVerdict, more: More = {}): RouterFlag {
  return { arity: "one", there, verdict, ...more };
}

/** A flag with one value or more. */
export function some(verdict: FlagVerdict, more: More = {}): RouterFlag {
  return { arity: "some", there: undefined, verdict, ...more };
}

/** A flag with any number of values. */
export function any(verdict: FlagVerdict, more: More = {}): RouterFlag {
  return { arity: "any", there: undefined, verdict, ...more };
}
