import { RE2JS } from "re2js";
import { messageOf } from "../../base/errors.ts";

/**
 * Most instructions of a compiled pattern. Matching takes at most this many steps for each character, so that a
 * pattern from a request cannot keep the process busy.
 */
const MAX_PROGRAM_SIZE = 500;

/** A regular expression that is matched in linear time: RE2's syntax, so without look-around and back-references. */
export type SafePattern = RE2JS;

/** Problem of a pattern, as the end of a sentence; undefined when it has none. */
export function patternProblem(source: string): string | undefined {
  try {
    const size = RE2JS.compile(source).programSize();
    return size <= MAX_PROGRAM_SIZE
      ? undefined
      : `is too large: it compiles to ${size} instructions of at most ${MAX_PROGRAM_SIZE}`;
  } catch (error) {
    return `is no regular expression of RE2's syntax: ${messageOf(error)}`;
  }
}

/** Compiles a pattern in which `patternProblem` finds nothing; throws otherwise. */
export function compileSafePattern(source: string): SafePattern {
  const problem = patternProblem(source);
  if (problem !== undefined) throw new RangeError(`The pattern ${source} ${problem}`);
  return RE2JS.compile(source);
}
