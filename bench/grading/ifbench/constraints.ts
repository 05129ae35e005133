import type { Checkers } from "./constraints/checker.ts";
import { COUNT_CHECKERS } from "./constraints/count.ts";
import { CUSTOM_CHECKERS } from "./constraints/custom.ts";
import { FORMAT_CHECKERS } from "./constraints/format.ts";
import { RATIO_CHECKERS } from "./constraints/ratio.ts";
import { REPEAT_CHECKERS } from "./constraints/repeat.ts";
import { SENTENCE_CHECKERS } from "./constraints/sentence.ts";
import { WORDS_CHECKERS } from "./constraints/words.ts";

/** Checkers of IFBench's constraints, as its authors' program checks them (allenai/IFBench at db69a6f). */
export const CHECKERS: Checkers = {
  ...COUNT_CHECKERS,
  ...RATIO_CHECKERS,
  ...WORDS_CHECKERS,
  ...SENTENCE_CHECKERS,
  ...FORMAT_CHECKERS,
  ...REPEAT_CHECKERS,
  ...CUSTOM_CHECKERS,
};

/** Constraints of IFBench that have no checker here, and why. */
export const REFUSED: Readonly<Record<string, string>> = {
  "words:start_verb":
    "whether a word is a verb is what NLTK's trained tagger says, whose weights are not part of Canopy",
};
