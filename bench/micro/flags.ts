import process from "node:process";

/** Text behind `flag` on a benchmark's command line. */
export function textAfter(flag: string, otherwise: string): string {
  const at = process.argv.indexOf(flag);
  return at < 0 ? otherwise : process.argv[at + 1] ?? otherwise;
}

export function numberAfter(flag: string, otherwise: number): number {
  return Number(textAfter(flag, String(otherwise)));
}
