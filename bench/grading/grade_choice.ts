import { optionLetter } from "../datasets/data_set.ts";
import { statedPhrases } from "./stated_phrases.ts";
import { type AnswerGrade, gradedAs, NOTHING_STATED } from "./answer_grade.ts";

/** A letter at the start of a phrase, marked as one: (C), C), C., **C**, option C; or alone. */
const LETTER =
  /^(?:(?:option|choice|answer|letter)\s*:?\s*)?(?:\(\s*([A-Z])\s*\)|([A-Z])(?=$|[).:,;]|\s*[-–—]\s|\s+(?:because|since|as|is)\b))/iu;
/** Another letter that is named in the same breath. */
const ANOTHER = /^[).:\s]*(?:or|and|\/|,|&)\s*(?:option\s*)?\(?([A-Z])\)?(?![\p{L}\d])/u;

/** Grades a choice among options by letter, or by an option's text where a phrase is nothing else. */
export function gradeChoice(
  { answer, options = [] }: { readonly answer: string; readonly options?: readonly string[] | undefined },
  text: string,
): AnswerGrade {
  const letters = options.map((_, index) => optionLetter(index));
  for (const phrase of statedPhrases(text)) {
    const found = LETTER.exec(phrase);
    const marked = found?.[1] ?? found?.[2];
    const letter = marked?.toUpperCase();
    if (found !== null && letter !== undefined && letters.includes(letter)) {
      // "a" alone at the start of a phrase is a word.
      if (found[2] === "a" && phrase.length > 1) continue;
      const other = ANOTHER.exec(phrase.slice(found[0].length))?.[1];
      if (other !== undefined && other !== letter && letters.includes(other)) return NOTHING_STATED;
      return gradedAs(letter === answer, letter);
    }
    const same = options.flatMap((option, index) =>
      plainOption(option) === plainOption(phrase) ? [index] : []
    );
    if (same.length === 1) {
      const named = optionLetter(same[0]!);
      return gradedAs(named === answer, named);
    }
  }
  return NOTHING_STATED;
}

function plainOption(text: string): string {
  return text.toLowerCase().replaceAll(/[\s$*`"'().]+/gu, " ").trim();
}
