/**
 * A text with formulas, without spellings that make no difference to what is stated: spaced thousands, other commands
 * for text, matrices as arrays, "percent" in words, backslashes that were escaped twice.
 */
export function plainMaths(text: string): string {
  const unescaped = text.includes("\\begin") ? text : text.replaceAll(/\\\\(?=[a-zA-Z({[])/gu, "\\");
  return unescaped
    .replaceAll(/\\(?:textnormal|textrm|textup|textsf|mbox|textit|hbox)(?=\s*\{)/gu, "\\text")
    .replaceAll(/(?<=\d),\\!\s*(?=\d{3})|(?<=\d)\\[,!]\s*(?=\d{3})/gu, "")
    .replaceAll(/(?<=\d)\s*\{\s*,\s*\}\s*(?=\d{3})/gu, "")
    .replaceAll(
      /\\left\s*(?:\[|\()\s*\\begin\s*\{array\}\s*\{[lcr|\s]*\}|\\begin\s*\{array\}\s*\{[lcr|\s]*\}/gu,
      "\\begin{pmatrix}",
    )
    .replaceAll(/\\end\s*\{array\}\s*(?:\\right\s*[\])])?/gu, "\\end{pmatrix}")
    .replaceAll(
      /(\d|\}|\$)\s*(?:\\text\s*\{\s*)?(?:pct|percent(?:age)?(?: points?)?|per cent)\b\.?\s*\}?/giu,
      "$1\\%",
    )
    .replaceAll(/\$\s*\\?%/gu, "\\%$")
    .replaceAll(/(?<=[)\]}\d])(or|and)(?=[([\\\d])/gu, " $1 ")
    .replaceAll(/\\(?:displaystyle|left|right|limits)(?![a-zA-Z])/gu, "")
    .replaceAll(/\\(?:dots|ldots|cdots)[.,;]?\s*$/gu, "");
}
