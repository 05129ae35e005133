import process from "node:process";

/** Runs `work` and gives the CPU time that this process spent meanwhile, user and system, in µs. */
export async function cpuMicros(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

/** The middle one of the values; NaN when there is none. */
export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? NaN;
}

/**
 * Measures things that are to be compared: in turns, so that what else the machine does meets all of them alike.
 * Gives each one's median. The first round warms the compiler up and does not count.
 */
export async function inTurns<Name extends string>(
  rounds: number,
  measures: Readonly<Record<Name, () => Promise<number>>>,
): Promise<Record<Name, number>> {
  const entries = Object.entries<() => Promise<number>>(measures);
  const figures = new Map<string, number[]>(entries.map(([name]) => [name, []]));
  for (let round = 0; round <= rounds; round++) {
    for (const [name, measure] of entries) {
      const figure = await measure();
      if (round > 0) figures.get(name)?.push(figure);
    }
  }
  return Object.fromEntries(entries.map(([name]) => [name, median(figures.get(name) ?? [])])) as Record<
    Name,
    number
  >;
}
