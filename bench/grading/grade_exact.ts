import { answerPart, statedPhrases } from "./stated_phrases.ts";
import { type AnswerGrade, gradedAs, NOTHING_STATED } from "./answer_grade.ts";

/** Words of which the first one decides, whatever explains it. */
const CLOSED: readonly (readonly string[])[] = [
  ["yes", "no"],
  ["true", "false"],
  ["valid", "invalid"],
];
/** A last line that was not announced is an answer only if it is about as long as the right one. */
const MORE_CHARACTERS = 12;

/** Grades an answer letter by letter, but for case, blanks and marks around it; of yes and no by the first word. */
export function gradeExact({ answer }: { readonly answer: string }, text: string): AnswerGrade {
  const gold = plainAnswer(answer);
  const words = CLOSED.find((one) => one.includes(gold));
  if (!/[\p{L}\d]/u.test(gold)) return gradeSigns(gold, text);
  const phrases = statedPhrases(text);
  for (const [index, phrase] of phrases.entries()) {
    const plain = plainAnswer(phrase);
    if (words !== undefined) {
      const first = /^[\p{L}]+/u.exec(plain)?.[0];
      if (first !== undefined && words.includes(first)) return gradedAs(first === gold, first);
      continue;
    }
    // Announced, or the last line.
    const announced = index < phrases.length - 1;
    if (plain === "" || (!announced && plain.length > gold.length + MORE_CHARACTERS)) continue;
    return gradedAs(plain === gold, phrase);
  }
  return NOTHING_STATED;
}

/** Grades an answer of signs alone, such as the brackets of dyck_languages: the last run of such signs of the last line. */
function gradeSigns(gold: string, text: string): AnswerGrade {
  const line = answerPart(text)?.split("\n").findLast((one) => one.trim() !== "") ?? "";
  const runs = line.replaceAll(/[.*`$"]+/gu, " ").match(/[^\p{L}\d\s,:;?!](?:\s*[^\p{L}\d\s,:;?!])*/gu);
  const stated = runs?.at(-1);
  if (stated === undefined) return NOTHING_STATED;
  return gradedAs(stated.replaceAll(/\s/gu, "") === gold.replaceAll(/\s/gu, ""), stated);
}

function plainAnswer(text: string): string {
  return text.toLowerCase().normalize("NFKC").replaceAll(/\s+/gu, " ").trim().replace(
    /^[("'[]+(?=\p{L}+[)"'\].]*$)/u,
    "",
  )
    .replace(/(?<=\p{L})[)"'\].]+$/u, "");
}
