import type { OutputLog } from "./output_log.ts";

/** The end of a text that must be one piece again and again, and how often; the longest list and the dullest table are less. */
const LOOP = { characters: 1_500, times: 5 };
/** New characters after which a text is looked at again. */
const STEP = 250;

/**
 * Length in characters of the piece that a text's end repeats word for word; undefined where it does not: numbers that
 * count on, rows that differ in anything, are no loop.
 */
export function loopPeriod(text: string): number | undefined {
  if (text.length < LOOP.characters) return undefined;
  const tail = text.slice(-LOOP.characters);
  // Longest proper border of each prefix (Knuth, Morris and Pratt 1977): the tail's period is its length less the last.
  const borders = new Uint16Array(tail.length);
  let border = 0;
  for (let at = 1; at < tail.length; at++) {
    while (border > 0 && tail[at] !== tail[border]) border = borders[border - 1]!;
    if (tail[at] === tail[border]) border++;
    borders[at] = border;
  }
  const period = tail.length - border;
  return period * LOOP.times <= tail.length && tail.trim() !== "" ? period : undefined;
}

/** Calls `onLoop` once, with the length of the piece, when what is written repeats itself; text and reasoning alike. */
export function watchLoops(log: OutputLog, onLoop: (period: number) => void): void {
  let seen = 0;
  let found = false;
  log.subscribe(() => {
    const { text, reasoning } = log;
    const length = text.length + reasoning.length;
    if (found || Math.abs(length - seen) < STEP) return;
    seen = length;
    const period = loopPeriod(text === "" ? reasoning : text);
    if (period === undefined) return;
    found = true;
    onLoop(period);
  });
}
