import { pythonStrip } from "../../../router/moa/prompt/compat_moa_vllm.ts";

/** Whether the first or the last match of a text counts. */
export type MatchSelect = "first" | "last";

/**
 * The first or last match as Python's `findall` gives it: of a pattern with groups the first one that is not empty,
 * stripped. Undefined where nothing matches, or all of several groups are empty; empty where the only group is.
 */
export function pythonMatch(pattern: RegExp, text: string, select: MatchSelect): string | undefined {
  const found = [...text.matchAll(pattern)].at(select === "first" ? 0 : -1);
  if (found === undefined) return undefined;
  const [whole, ...groups] = found;
  const kept = groups.length === 0 ? whole : groups.find((group) => group);
  return kept === undefined && groups.length > 1 ? undefined : pythonStrip(kept ?? "");
}

/** A pattern for words, between which `\b` stands as in Python: letters of all scripts are of words. */
export function wordPattern(words: readonly string[]): RegExp {
  return new RegExp(`(?<![\\p{L}\\p{N}_])(?:${words.join("|")})(?![\\p{L}\\p{N}_])`, "gu");
}

/** A text as a pattern that matches nothing but it. */
export function literalPattern(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/gu, "\\$&");
}
