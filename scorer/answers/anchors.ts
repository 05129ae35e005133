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

/** An announcement of a result, which may be one on the way. */
const PASSING = /^(?:result|solution|ergebnis)/iu;
/** The beginning of a sentence that takes back, or limits, what stands before it. */
const RETRACTS =
  /(?:^|[.!?。]\s+|\n)\W{0,4}(?:wait|actually|hmm|no[,:.]|correction|on second thought|let me (?:re-?|double[- ])?check|however|but|otherwise|alternatively|oops|sorry)\b/iu;

/** Announcements that are looked at, from the last one on. */
const MAX_ANCHORS = 8;
/** Characters behind an announcement in which it may be taken back. */
const RETRACTION_LENGTH = 1_000;
/** Sentences at the end of a text that are looked at. */
const MAX_SENTENCES = 8;

/**
 * Phrases behind the announcements of a final answer ("The answer is …", "**Answer:** …", "#### …"), the last one first:
 * the rest of the sentence, or the next line when the announcement ends its own. None where the text then takes it back.
 */
export function announced(text: string): string[] {
  const anchors: { end: number; passing: boolean }[] = [];
  for (const pattern of [announcement, HASHES, HEADING]) {
    for (const { 0: found, index } of text.matchAll(pattern)) {
      anchors.push({ end: index + found.length, passing: PASSING.test(found) });
    }
  }
  anchors.sort((a, b) => b.end - a.end);
  // What the last announcement's text takes back is no answer, nor is any that was given before it.
  const last = anchors[0];
  if (last === undefined || RETRACTS.test(text.slice(last.end, last.end + RETRACTION_LENGTH))) return [];
  return anchors.slice(0, MAX_ANCHORS).filter(({ end, passing }) => !passing || !goesOn(text, end))
    .map(({ end }) => phraseAt(text, end)).filter((phrase) => phrase !== "");
}

/** True when a text of whole sentences announces its final answer (not a result on the way), or has it in a box. */
export function statesAnswer(text: string): boolean {
  const ends = [announcement, HASHES, HEADING].flatMap((pattern) =>
    [...text.matchAll(pattern)].filter(([found]) => !PASSING.test(found)).map(({ 0: found, index }) =>
      index + found.length
    )
  );
  const boxed = text.lastIndexOf("\\boxed{");
  if (boxed >= 0) ends.push(boxed);
  const last = Math.max(-1, ...ends);
  return last >= 0 && phraseAt(text, last) !== "" && !RETRACTS.test(text.slice(last));
}

/** True when sentences with numbers or formulas follow the one that begins here. */
function goesOn(text: string, start: number): boolean {
  const rest = text.slice(start, start + RETRACTION_LENGTH);
  return sentencesOf(rest).slice(1).some((sentence) => /[\d$\\]/u.test(sentence));
}

/** The sentences of the last lines that are not empty, the last one first, without markdown. */
export function lastSentences(text: string, maxLines: number): string[] {
  const lines = text.slice(-4_096).split("\n").map((line) => line.trim()).filter((line) => line !== "");
  return lines.slice(-maxLines).reverse().flatMap((line) => sentencesOf(line).reverse())
    .slice(0, MAX_SENTENCES);
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
