/**
 * A formula or a phrase without the wrappings and spellings that make no difference (after the normalisers of the MATH
 * data set: Hendrycks et al. 2021, Lewkowycz et al. 2022); conjunctions are `∧` and `∨`. Blanks stay: they part names.
 */
export function plainText(text: string): string {
  return text
    .replaceAll(/\\(?:left|right|displaystyle|bigg?|Bigg?|quad|qquad)(?![a-z])|(?<!\\)\\[,;:! ]|~/gu, " ")
    .replaceAll(/(?<!\\)\\[()[\]]|(?<!\\)\$|`/gu, " ")
    .replaceAll(
      /\*\*(?=[\s\S]*\*\*)|\*\*$/gu,
      (marks, at: number, whole: string) => isPower(whole, at) ? marks : " ",
    )
    .replaceAll(/\\(?:text|mathrm|textbf|mathbf|textit|operatorname|mbox|rm)\s*\{([^{}]{0,200})\}/gu, " $1 ")
    .replaceAll(/\\[dtc]frac/gu, "\\frac")
    .replaceAll(/π|(?<![\\a-zA-Z])pi(?![a-zA-Z])/gu, "\\pi ").replaceAll("∞", "\\infty ")
    .replaceAll("²", "^2").replaceAll("³", "^3").replaceAll("½", "\\frac{1}{2}")
    .replaceAll(/(?:√|(?<!\\)\bsqrt)\s*\(([^()]{0,60})\)/gu, "\\sqrt{$1}")
    .replaceAll(/√\s*(\d+|\w)/gu, "\\sqrt{$1}")
    .replaceAll(/,?\s*(?:\\land|\\wedge)(?![a-z])|,?\s+(?:and|und|et)\s+/giu, " ∧ ")
    .replaceAll(/,?\s*(?:\\lor|\\vee)(?![a-z])|,?\s+(?:or|oder|ou)\s+/giu, " ∨ ")
    .replaceAll(/\s+/gu, " ").trim()
    // An exclamation mark behind a value is a factorial.
    .replace(/[.,;?:]+$|(?<=\p{L}{2})!+$/u, "").trim()
    .replace(/^(?:the|a|an) (?=\p{L}{3})/iu, "");
}

/**
 * Normal form of what is compared letter by letter: `plainText` without the blanks between anything but digits, words in
 * lower case.
 */
export function normalText(text: string): string {
  return plainText(text)
    .replaceAll(/\^\s*\{?\\circ\}?|°|\\degree/gu, "")
    .replaceAll(/\\frac\s*(\d|[a-z])\s*(\d|[a-z])/gu, "\\frac{$1}{$2}")
    .replaceAll(/\\sqrt\s*(\d|[a-z])/gu, "\\sqrt{$1}")
    .replaceAll(/(^|[-+*=(,\s])(\d{1,9}|[a-z])\s?\/\s?(\d{1,9}|[a-z])(?![\w^{])/gu, "$1\\frac{$2}{$3}")
    .replaceAll(/\*\*|\\cdot(?![a-z])|\\times(?![a-z])|×|·/gu, (sign) => sign === "**" ? "^" : "*")
    .replaceAll(/([_^])\{(\w)\}/gu, "$1$2")
    .replaceAll(/\\leq?(?![a-z])|≤/gu, "<=").replaceAll(/\\geq?(?![a-z])|≥/gu, ">=")
    .replaceAll(
      /[\p{L}]{2,}/gu,
      (word, at: number, whole: string) => whole[at - 1] === "\\" ? word : word.toLowerCase(),
    )
    .replaceAll(/(?<!\d)\s+|\s+(?!\d)/gu, "")
    // 11·½ is no 11½.
    .replaceAll(/(?<=[\w})])(?<!\d(?=\*\\frac))\*(?=[\\a-zA-Z(])/gu, "");
}

/** Two asterisks are a power between two values, markdown's emphasis elsewhere. */
function isPower(text: string, at: number): boolean {
  return /[\w)}]/u.test(text[at - 1] ?? "") && /[\w({]/u.test(text[at + 2] ?? "");
}
