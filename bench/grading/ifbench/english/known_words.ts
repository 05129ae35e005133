/**
 * Facts on words that Punkt's English model has in a table of 20,365 words, which is not part of Canopy: nobody has said
 * under which licence it is. `begins`: seen in small letters, and never with a capital within a sentence; `inner`: seen
 * with a capital, or never small at the start of a sentence; `small`: seen in small letters.
 */
export type WordFact = `${"begins" | "inner" | "small"} ${string}`;

/** Says whether a fact holds, the same for a fact each time. */
export type KnownWords = (fact: WordFact) => boolean;

/** Runs of a check for one verdict: of texts that ask more than six questions not all answers are tried. */
const MOST_RUNS = 64;

/** Verdict that a check comes to whatever the table says; undefined where it depends on it. */
export function verdictForAllWords(check: (known: KnownWords) => boolean): boolean | undefined {
  const open: (readonly (readonly [WordFact, boolean])[])[] = [[]];
  let verdict: boolean | undefined;
  for (let runs = 0;; runs++) {
    const start = open.pop();
    if (start === undefined) return verdict;
    if (runs === MOST_RUNS) return undefined;
    const facts = new Map(start);
    const result = check((fact) => {
      const known = facts.get(fact);
      if (known !== undefined) return known;
      open.push([...facts, [fact, true]]);
      facts.set(fact, false);
      return false;
    });
    if (verdict !== undefined && verdict !== result) return undefined;
    verdict = result;
  }
}
