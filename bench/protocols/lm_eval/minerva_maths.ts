import { pythonStrip } from "../../../router/moa/prompt/compat_moa_vllm.ts";
import { equalMaths } from "../../grading/maths/equal_maths.ts";

/** What Minerva's prompt asks for, as lm-eval's `minerva_math` finds it; undefined where the text does not say it. */
export function minervaAnswer(text: string): string | undefined {
  const found = /Final Answer: The final answer is([^\n]*?)[^\n] I hope it is correct[^\n]/u.exec(
    `${text}${END}`,
  );
  return found === null ? undefined : cleanMinerva(pythonStrip(found[1]!));
}

/**
 * Whether two formulas that `cleanMinerva` made are the same text, or have the same value: lm-eval asks SymPy for the
 * latter, and here it is the arithmetic of the grader `maths`. Values of percents, lists and intervals are not
 * compared, since SymPy does not read them.
 */
export function sameMinervaMaths(stated: string, gold: string): boolean {
  if (stated === gold) return gold !== "";
  return !UNREAD.test(stated) && !UNREAD.test(gold) && equalMaths(gold, [stated], "");
}

const UNREAD = /[%;]|(?<!sqrt)\[|\\cup|,(?!\d{3}(?!\d))/u;
const END = "I hope it is correct.";

const SUBSTITUTED: readonly (readonly [string, string])[] = [
  ["an ", ""],
  ["a ", ""],
  [".$", "$"],
  ["\\$", ""],
  ["\\ ", ""],
  [" ", ""],
  ["mbox", "text"],
  [",\\text{and}", ","],
  ["\\text{and}", ","],
  ["\\text{m}", "\\text{}"],
];

/** Removed in this order; of letters alone is what units are called. */
const REMOVED: readonly string[] = [
  ...[
    "square",
    "ways",
    "integers",
    "dollars",
    "mph",
    "inches",
    "ft",
    "hours",
    "km",
    "units",
    "\\ldots",
    "sue",
  ],
  ...[
    "points",
    "feet",
    "minutes",
    "digits",
    "cents",
    "degrees",
    "cm",
    "gm",
    "pounds",
    "meters",
    "meals",
    "edges",
  ],
  ...["students", "childrentickets", "multiples", "\\text{s}", "\\text{.}", "\\text{\ns}", "\\text{}^2"],
  ...[
    "\\text{}^3",
    "\\text{\n}",
    "\\text{}",
    "\\mathrm{th}",
    "^\\circ",
    "^{\\circ}",
    "\\;",
    ",\\!",
    "{,}",
    '"',
  ],
  "\\dots",
];
const UNITS = REMOVED.filter((one) => /^[a-z]+$/u.test(one));

/** The clean-up of Lewkowycz et al. (2022), appendix D, as lm-eval 0.4.13 has it. */
export function cleanMinerva(answer: string): string {
  let clean = answer.split("=").at(-1)!;
  for (const unit of UNITS) {
    clean = clean.replaceAll(new RegExp(`(?<![\\\\\\p{L}\\p{N}_])${unit}(?![\\p{L}\\p{N}_])`, "gu"), "");
  }
  for (const [before, after] of SUBSTITUTED) clean = clean.replaceAll(before, after);
  for (const one of REMOVED) {
    clean = UNITS.includes(one)
      // A command such as \left is left alone.
      ? clean.split(/(\\[a-zA-Z]+)/u).map((part, at) => at % 2 === 0 ? part.replaceAll(one, "") : part).join(
        "",
      )
      : clean.replaceAll(one, "");
  }
  clean = clean.replaceAll(/([^\n]*?)\$([^\n]*?)\$([^\n]*)/gu, "$$$2$$")
    .replaceAll(/\\text\{([^\n]*?)\}/gu, "$1")
    .replaceAll(/\\textbf\{([^\n]*?)\}/gu, "$1")
    .replaceAll(/\\overline\{([^\n]*?)\}/gu, "$1")
    .replaceAll(/\\boxed\{([^\n]*)\}/gu, "$1")
    // \frac12 → \frac{1}{2}, \sqrt[3]2 → \sqrt[3]{2}, \sqrt2 → \sqrt{2}.
    .replaceAll(/frac([^{])([^\n])/gu, "frac{$1}{$2}")
    .replaceAll(/sqrt(\[[^\]]*\])([\p{L}\p{N}_])/gu, "sqrt$1{$2}")
    .replaceAll(/sqrt(?!\[)([^{])/gu, "sqrt{$1}")
    .replaceAll("$", "");
  return /^-?\p{Nd}{1,3}(?:,\p{Nd}{3})+$/u.test(clean) ? clean.replaceAll(",", "") : clean;
}
