import { announced, lastSentences } from "./anchors.ts";
import { type FoundAnswer, textAnswer } from "./final_answer.ts";

/** The choice that a text announces; without an announcement only where the question offers options, or asks yes or no. */
export function findChoice(text: string, question: string): FoundAnswer | undefined {
  const options = offersOptions(question);
  for (const phrase of announced(text)) {
    const value = choiceValue(phrase) ?? leadingChoice(phrase, options);
    if (value !== undefined) return textAnswer(phrase, `choice:${value}`);
  }
  if (options) {
    const trimmed = text.trim();
    const whole = trimmed.length <= 200 ? leadingChoice(trimmed, true) : undefined;
    if (whole !== undefined) return textAnswer(trimmed, `choice:${whole}`);
    for (const sentence of lastSentences(text, 1)) {
      const value = choiceValue(sentence) ?? leadingChoice(sentence.replace(/^[*_\s]+/u, ""), false);
      if (value !== undefined) return textAnswer(sentence, `choice:${value}`);
    }
  }
  if (!asksYesOrNo(question)) return undefined;
  const start = /^[\s*_#>]{0,8}(yes|no|true|false)\b(?!\s+(?:one|matter|doubt|longer|more))/iu.exec(text);
  return start === null ? undefined : textAnswer(start[1]!, `choice:${start[1]!.toLowerCase()}`);
}

/** The choice that a short text is, and nothing else: B, (b), **C)**, option D, yes. */
export function choiceValue(text: string): string | undefined {
  const bare = text.slice(0, 60)
    .replaceAll(/\\(?:text|mathrm|textbf|mathbf)\s*\{([^{}]{0,40})\}/gu, "$1")
    .replaceAll(/[*_`$"'\s]|\\[()[\]]/gu, "").replace(/^(?:option|choice|answer):?/iu, "").replace(
      /[.,;:!]+$/u,
      "",
    );
  const letter = /^(?:([A-J])|\(([A-Ja-j])\)|([A-Ja-j])\)|\{([A-J])\})$/u.exec(bare);
  if (letter !== null) return (letter[1] ?? letter[2] ?? letter[3] ?? letter[4])!.toUpperCase();
  return /^(?:yes|no|true|false)$/iu.test(bare) ? bare.toLowerCase() : undefined;
}

/** The letter at the start of a phrase that says more: (C) 42 km. A bare letter and a word only among known options. */
function leadingChoice(phrase: string, options: boolean): string | undefined {
  const text = phrase.replaceAll(/\*\*|__|`|\$/gu, "").replace(/^(?:option|choice)\s+/iu, "");
  const marked = /^(?:\(([A-Ja-j])\)|([A-J])(?:\)|\.(?!\w)|:|,|\s-\s|\s(?:because|since|as)\b))/u.exec(text);
  if (marked !== null) return (marked[1] ?? marked[2])!.toUpperCase();
  const word = /^(yes|no|true|false)(?:[,.;:!]|\s(?:because|since|as)\b)/iu.exec(text);
  if (word !== null) return word[1]!.toLowerCase();
  // "A" and "I" are words as well.
  return options ? /^([B-HJ])\s/u.exec(text)?.[1] : undefined;
}

/** True when a question lists options A, B, … to choose from. */
export function offersOptions(question: string): boolean {
  const markerOf = (letter: string) => new RegExp(`(?:^|[\\s(])${letter}\\s?[).:]\\s?\\S`, "mu");
  const first = markerOf("A").exec(question);
  return first !== null && markerOf("B").test(question.slice(first.index + first[0].length - 1));
}

/** True when the last sentence of a question can be answered with yes or no. */
function asksYesOrNo(question: string): boolean {
  const last =
    question.slice(-1_000).split(/(?<=[.!?])\s+|\n/u).map((part) => part.trim()).filter((part) => part !== "")
      .at(-1) ?? "";
  return /\b(?:yes or no|true or false)\b/iu.test(question) ||
    /^(?:is|are|was|were|does|do|did|can|could|will|would|should|has|have|had|may|must)\b[^?]*\?$/iu.test(
      last,
    );
}
