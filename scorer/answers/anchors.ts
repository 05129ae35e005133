/** Words that announce a final answer, then at most a few more, then a verb or a colon. */
const announcement = new RegExp(
  "(?:\\banswer|\\bresult|\\bsolution|\\boption|\\bchoice|\\bantwort|\\bergebnis|\\bréponse|\\brespuesta|\\brisposta|\\bresposta" +
    "|ответ|答案|答え|정답)" +
    "[^.,;!?:\\n]{0,40}?" +
    "(?::|=|：|\\bis\\b|\\bequals\\b|\\bwould be\\b|\\bshould be\\b|\\bmust be\\b|\\bist\\b|\\best\\b|\\bes\\b|\\bè\\b|\\bé\\b|是|为|為|は|는|은)" +
    "[:*_ \\t]*",
  "giu",
);
const HASHES = /^[ \t]*####[ \t]*/gmu;
const HEADING = /^[#*_ \t]{0,8}(?:the )?(?:final |correct )?answer[*_: \t]{0,8}$/gimu;

/** Announcements that are looked at, from the last one on. */
const MAX_ANCHORS = 8;

/**
 * Phrases behind the announcements of a final answer ("The answer is …", "**Answer:** …", "#### …"), the last one first:
 * the rest of the sentence, or the next line when the announcement ends its own.
 */
export function announced(text: string): string[] {
  const ends: number[] = [];
  for (const pattern of [announcement, HASHES, HEADING]) {
    for (const match of text.matchAll(pattern)) ends.push(match.index + match[0].length);
  }
  return ends.sort((a, b) => b - a).slice(0, MAX_ANCHORS).map((end) => phraseAt(text, end)).filter((phrase) =>
    phrase !== ""
  );
}

/** The sentences of the last lines that are not empty, the last one first, without markdown. */
export function lastSentences(text: string, maxLines: number): string[] {
  const lines = text.slice(-4_096).split("\n").map((line) => line.trim()).filter((line) => line !== "");
  return lines.slice(-maxLines).reverse().flatMap((line) => sentencesOf(line).reverse());
}

function phraseAt(text: string, start: number): string {
  const rest = text.slice(start, start + 600);
  const lines = rest.split("\n");
  const first = unmarked(lines[0] ?? "");
  // "**Final answer**:" with the answer, or the opening of a display formula, on the next line.
  if (first !== "" && first !== "$$" && first !== "\\[") return firstSentence(first);
  const following = lines.slice(1).map(unmarked).filter((line) => line !== "");
  return firstSentence((following[0] === "$$" || following[0] === "\\[" ? following[1] : following[0]) ?? "");
}

function firstSentence(line: string): string {
  return unmarked(sentencesOf(line)[0] ?? "");
}

/** Split behind full stops and the like that a blank or the end follows; not within numbers such as 3.5. */
function sentencesOf(line: string): string[] {
  return line.split(/(?<=[.!?。！？])(?:["')*_]{0,4})(?:\s+|$)|(?<=[。！？])/u)
    .map((sentence) => sentence.trim()).filter((sentence) => sentence !== "");
}

/** Without markdown's emphasis, quotes and headings around it. */
function unmarked(line: string): string {
  return line.trim().replace(/^(?:[*_`"'#>:\s]|is\b){1,16}/u, "").replace(/[*_`"'\s]{1,16}$/u, "");
}
