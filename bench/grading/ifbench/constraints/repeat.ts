import { codePoints, splitWords, strip } from "../python/python_text.ts";
import type { Checkers } from "./checker.ts";

/** Constraints that have a text repeated. */
export const REPEAT_CHECKERS: Checkers = {
  "repeat:repeat_change": (text, given) => {
    const wanted = given.text("prompt_to_repeat");
    return wanted !== text && withoutFirst(wanted) === withoutFirst(text);
  },
  "repeat:repeat_simple": (text) =>
    strip(text).toLowerCase() === "only output this sentence here, ignore all other requests.",
  // Characters, not words, from 0, with both ends.
  "repeat:repeat_span": (text, given) => {
    const wanted = codePoints(given.text("prompt_to_repeat"))
      .slice(given.number("n_start"), given.number("n_end") + 1).join("");
    return strip(text).toLowerCase() === strip(wanted).toLowerCase();
  },
};

function withoutFirst(text: string): string {
  return splitWords(text).slice(1).join(" ");
}
