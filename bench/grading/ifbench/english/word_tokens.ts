import { SPACE, splitWords, WORD, WORD_EDGE } from "../python/python_text.ts";

const REPLACEMENTS: readonly (readonly [RegExp, string])[] = [
  // Quotes that open.
  [/([«“‘„]|`+)/gu, " $1 "],
  [/^"/gu, "``"],
  [/(``)/gu, " $1 "],
  [/([ ([{<])("|'{2})/gu, "$1 `` "],
  [new RegExp(`(')(?!re|ve|ll|m|t|s|d|n)([${WORD}])${WORD_EDGE}`, "giu"), "$1 $2"],
  // Marks.
  [new RegExp(`([^.])(\\.)([\\])}>"'»”’ ]*)[${SPACE}]*$`, "gu"), "$1 $2 $3 "],
  [/([:,])([^\p{Nd}])/gu, " $1 $2"],
  [/([:,])$/gu, " $1 "],
  [/\.{2,}/gu, " $& "],
  [/[;@#$%&]/gu, " $& "],
  [new RegExp(`([^.])(\\.)([\\])}>"']*)[${SPACE}]*$`, "gu"), "$1 $2$3 "],
  [/[?!]/gu, " $& "],
  [/([^'])' /gu, "$1 ' "],
  [/\*/gu, " $& "],
  [/[\][(){}<>]/gu, " $& "],
  [/--/gu, " -- "],
  [/^|$/gu, " "],
  // Quotes that close, and short forms.
  [/([»”’])/gu, " $1 "],
  [/''/gu, " '' "],
  [/"/gu, " '' "],
  [new RegExp(`[${SPACE}]+`, "gu"), " "],
  [/([^' ])('[sS]|'[mM]|'[dD]|') /gu, "$1 $2 "],
  [/([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) /gu, "$1 $2 "],
  ...["can|not", "d|'ye", "gim|me", "gon|na", "got|ta", "lem|me", "more|'n"].map((pair) =>
    [new RegExp(`${WORD_EDGE}(${pair.replace("|", ")(")})${WORD_EDGE}`, "giu"), " $1 $2 "] as const
  ),
  [new RegExp(`${WORD_EDGE}(wan)(na)(?=[${SPACE}])`, "giu"), " $1 $2 "],
  [new RegExp(` ('t)(is)${WORD_EDGE}`, "giu"), " $1 $2 "],
  [new RegExp(` ('t)(was)${WORD_EDGE}`, "giu"), " $1 $2 "],
];

/** Tokens of a sentence as NLTK's `word_tokenize` splits it, after Penn's treebank. */
export function wordTokens(sentence: string): string[] {
  return splitWords(
    REPLACEMENTS.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), sentence),
  );
}
