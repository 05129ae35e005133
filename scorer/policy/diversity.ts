/** Requests for something made up, of which several different answers are wanted; in English and a few other languages. */
const CREATIVE: readonly RegExp[] = [
  /\b(?:write|compose|create|invent|make up|tell|draft|craft|give|generate)\b[^.?!\n]{0,60}\b(?:stor(?:y|ies)|poems?|haikus?|limericks?|sonnets?|songs?|lyrics|tales?|fables?|novel|screenplay|jokes?|riddles?|slogans?|taglines?|raps?|ballads?|monologues?|dialogues?|fan ?fiction|toasts?|speech(?:es)?|blog posts?|character names?)\b/iu,
  /\b(?:brainstorm|be creative|creative writing|use your imagination|let your imagination)\b/iu,
  /\b(?:come up with|suggest|think of|give me|list)\b[^.?!\n]{0,40}\b(?:names?|ideas|titles|slogans|themes|plots|ways to)\b/iu,
  /\b(?:schreibe?|erfinde|dichte)\b[^.?!\n]{0,60}\b(?:geschichte|gedicht|lied|märchen|witz)\b/iu,
  /\b(?:écris|invente|escribe|inventa|scrivi)\b[^.?!\n]{0,60}\b(?:histoire|poème|chanson|conte|historia|cuento|poema|canción|storia|poesia)\b/iu,
  /(?:写|编|创作)[^。？！\n]{0,20}(?:故事|诗|歌词|小说|笑话)/u,
];

/** Characters of a question that are looked at, at its start and at its end. */
const SEARCHED_LENGTH = 4_000;

/** True when a question asks for something creative. */
export function isCreative(question: string): boolean {
  const searched = question.length <= 2 * SEARCHED_LENGTH
    ? question
    : `${question.slice(0, SEARCHED_LENGTH)}\n${question.slice(-SEARCHED_LENGTH)}`;
  return CREATIVE.some((pattern) => pattern.test(searched));
}

/** Words of a text that are counted. */
const COUNTED_LENGTH = 65_536;

/**
 * Distinct-n of texts (Li et al. 2016, arXiv 1510.03055): the share of different n-grams of words among all of them;
 * 1 when nothing is said twice. Undefined when there is no n-gram. A text without blanks counts by characters.
 */
export function distinctShare(texts: readonly string[], n: number): number | undefined {
  return distinctShareOf(texts.map(textWords), n);
}

/** `distinctShare` of texts whose words are known. */
export function distinctShareOf(texts: readonly (readonly string[])[], n: number): number | undefined {
  const seen = new Set<string>();
  let count = 0;
  for (const words of texts) {
    for (let at = 0; at + n <= words.length; at++) {
      let gram = words[at]!;
      for (let next = at + 1; next < at + n; next++) gram += ` ${words[next]}`;
      seen.add(gram);
      count++;
    }
  }
  return count === 0 ? undefined : seen.size / count;
}

/** The words of a text as distinct-n counts them: in lower case, of a text without blanks its characters. */
export function textWords(text: string): string[] {
  return text.slice(-COUNTED_LENGTH).toLowerCase()
    .match(/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[\p{L}\p{N}\p{M}]+/gu) ??
    [];
}
