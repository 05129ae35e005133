/** Whether two formulas are the same string after the clean-up of Hendrycks et al. (2021), as lm-eval compares them. */
export function sameMathsString(stated: string, gold: string): boolean {
  try {
    return cleanMaths(stated) === cleanMaths(gold);
  } catch (error) {
    if (!(error instanceof UnexpectedForm)) throw error;
    return stated === gold;
  }
}

/** The text between the first and the last dollar sign; all of it where there are not two. */
export function betweenDollars(text: string): string {
  const [first, last] = [text.indexOf("$"), text.lastIndexOf("$")];
  return first === last ? text : text.slice(first + 1, last);
}

/** What the last `\boxed{…}` of a text holds; undefined where there is none, or it has another form. */
export function lastBoxed(text: string): string | undefined {
  if (text.includes("\\boxed ")) return text.split("\\boxed ").at(-1)!.split("$")[0]!;
  const start = text.lastIndexOf("\\boxed");
  if (start < 0) return undefined;
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    if (text[at] === "{") depth++;
    if (text[at] !== "}" || --depth !== 0) continue;
    const box = text.slice(start, at + 1);
    return box.startsWith("\\boxed{") ? box.slice("\\boxed{".length, -1) : undefined;
  }
  return undefined;
}

/** A formula at which the clean-up gives up: what it was given is compared as it is. */
class UnexpectedForm extends Error {
  override readonly name = "UnexpectedForm";
}

/** Removed wherever they stand, in this order. */
const REMOVED: readonly (readonly [string, string])[] = [
  ["\n", ""],
  ["\\!", ""],
  ["\\\\", "\\"],
  ["tfrac", "frac"],
  ["dfrac", "frac"],
  ["\\left", ""],
  ["\\right", ""],
  ["^{\\circ}", ""],
  ["^\\circ", ""],
  ["\\$", ""],
];

function cleanMaths(text: string): string {
  let clean = REMOVED.reduce((left, [from, to]) => left.replaceAll(from, to), text);
  clean = withoutUnit(clean).replaceAll("\\%", "").replaceAll(" .", " 0.").replaceAll("{.", "{0.");
  if (clean === "") return clean;
  if (clean.startsWith(".")) clean = `0${clean}`;
  const sides = clean.split("=");
  // "x = 5" is 5.
  if (sides.length === 2 && [...sides[0]!].length <= 2) clean = sides[1]!;
  clean = bracedFractions(bracedRoots(clean).replaceAll(" ", ""));
  return fractionOfSlash(clean === "0.5" ? "\\frac{1}{2}" : clean);
}

/** Units are written as `\text{ cm}`. */
function withoutUnit(text: string): string {
  const parts = text.split("\\text{ ");
  if (parts.length > 2) throw new UnexpectedForm();
  return parts[0]!;
}

/** `\sqrt3` → `\sqrt{3}`. */
function bracedRoots(text: string): string {
  const [before = "", ...roots] = text.split("\\sqrt");
  return before + roots.map((root) => {
    const [first] = root;
    if (first === undefined) throw new UnexpectedForm();
    return first === "{" ? `\\sqrt${root}` : `\\sqrt{${first}}${root.slice(first.length)}`;
  }).join("");
}

/** `\frac12` → `\frac{1}{2}`, `\frac1{2}` → `\frac{1}{2}`; all is left as it is where one has too little behind it. */
function bracedFractions(text: string): string {
  const [before = "", ...fractions] = text.split("\\frac");
  let braced = before;
  for (const fraction of fractions) {
    const [over, under, ...rest] = fraction;
    if (over === undefined) throw new UnexpectedForm();
    if (over === "{") {
      braced += `\\frac${fraction}`;
      continue;
    }
    if (under === undefined) return text;
    braced += `\\frac{${over}}${under === "{" ? under : `{${under}}`}${rest.join("")}`;
  }
  return braced;
}

/** `1/2` → `\frac{1}{2}`, of whole numbers only. */
function fractionOfSlash(text: string): string {
  const sides = text.split("/");
  if (sides.length !== 2) return text;
  // What is no number at all ends the clean-up, and one that is written in another way is left as it is.
  if (sides.some((side) => !/^\s*[+-]?\d+(?:_\d+)*\s*$/u.test(side))) throw new UnexpectedForm();
  const plain = sides.every((side) => /^(?:0|-?[1-9]\d*)$/u.test(side));
  return plain ? `\\frac{${sides[0]}}{${sides[1]}}` : text;
}
