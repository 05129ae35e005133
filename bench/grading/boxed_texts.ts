/** One \boxed{…} of a text. */
export interface BoxedText {
  readonly start: number;
  readonly end: number;
  readonly content: string;
}

/** All boxes of a text, first to last, those within others left out. */
export function boxedTexts(text: string): BoxedText[] {
  const boxes: BoxedText[] = [];
  for (const { 0: found, index } of text.matchAll(/\\(?:boxed|fbox)\s*\{/gu)) {
    const from = index + found.length;
    if (from < (boxes.at(-1)?.end ?? 0)) continue;
    let depth = 1;
    let at = from;
    for (; at < text.length && depth > 0; at++) {
      if (text[at] === "\\") at++;
      else if (text[at] === "{") depth++;
      else if (text[at] === "}") depth--;
    }
    // One that does not end is what the text broke off in.
    if (depth === 0) boxes.push({ start: index, end: at, content: text.slice(from, at - 1).trim() });
  }
  return boxes;
}
