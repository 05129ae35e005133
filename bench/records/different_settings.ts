import { isJsonObject } from "../../base/json.ts";

/** A setting that is not the same in two places; values as JSON, `none` where there is none. */
export interface DifferentSetting {
  /** Such as `seed` or `sets.gsm8k`; empty where settings are no JSON objects. */
  readonly name: string;
  readonly before: string;
  readonly after: string;
}

/** The settings, JSON objects as texts, that are not the same; other texts as a whole. */
export function differentSettings(before: string, after: string): DifferentSetting[] {
  if (before === after) return [];
  const [first, second] = [objectIn(before), objectIn(after)];
  if (first === undefined || second === undefined) return [{ name: "", before, after }];
  const found = [...differences(first, second, "")];
  // A hash differs wherever something else does, and says nothing beside it.
  const experiment = found.filter(({ name }) => name === EXPERIMENT);
  const onlyOneHasIt = experiment.some((one) => one.before === NONE || one.after === NONE);
  if (onlyOneHasIt || experiment.length === found.length) return experiment;
  return found.filter(({ name }) => name !== EXPERIMENT);
}

/** Two sides of a sentence: `seed "a", repeats 1` and `seed "b", repeats 2`. */
export function settingSides(found: readonly DifferentSetting[]): readonly [before: string, after: string] {
  const side = (valueOf: (one: DifferentSetting) => string) =>
    found.map((one) => one.name === "" ? valueOf(one) : `${one.name} ${valueOf(one)}`).join(", ");
  return [side((one) => one.before), side((one) => one.after)];
}

/** Name of the setting that holds an experiment's hash. */
const EXPERIMENT = "experiment";
const NONE = "none";

function* differences(
  first: Readonly<Record<string, unknown>>,
  second: Readonly<Record<string, unknown>>,
  within: string,
): Generator<DifferentSetting> {
  const text = (value: unknown) => value === undefined ? NONE : JSON.stringify(value);
  for (const name of new Set([...Object.keys(first), ...Object.keys(second)])) {
    const [a, b] = [first[name], second[name]];
    if (isJsonObject(a) && isJsonObject(b)) yield* differences(a, b, `${within}${name}.`);
    else if (text(a) !== text(b)) {
      yield { name: `${within}${name}`, before: text(a), after: text(b) };
    }
  }
}

function objectIn(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const read: unknown = JSON.parse(text);
    return isJsonObject(read) ? read : undefined;
  } catch {
    return undefined;
  }
}
