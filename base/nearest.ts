/** The name that `given` was most likely meant to be, if one is near enough (Damerau-Levenshtein distance). */
export function nearest(given: string, known: Iterable<string>): string | undefined {
  const wanted = given.toLowerCase();
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const name of known) {
    const candidate = name.toLowerCase();
    // An abbreviation, such as warn for warning, is as near as one typing error.
    const shortened = wanted.length >= 3 && candidate.startsWith(wanted);
    const distance = shortened && candidate !== wanted ? 1 : editDistance(wanted, candidate);
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  return best;
}

/** `; did you mean "x"?`, or nothing. */
export function didYouMean(given: string, known: Iterable<string>): string {
  const name = nearest(given, known);
  return name === undefined ? "" : `; did you mean "${name}"?`;
}

/** Names in quotes, the first eight of them. */
export function quoteList(names: Iterable<string>): string {
  const all = [...names];
  if (all.length === 0) return "none";
  const shown = all.slice(0, 8).map((name) => JSON.stringify(name)).join(", ");
  return all.length > 8 ? `${shown} and ${all.length - 8} more` : shown;
}

/** Insertions, deletions, replacements and swaps of neighbours (optimal string alignment); long names are cut. */
function editDistance(left: string, right: string): number {
  const a = left.slice(0, 100);
  const b = right.slice(0, 100);
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, beforeLast[j - 2]! + 1);
      }
      row.push(cost);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length]!;
}
