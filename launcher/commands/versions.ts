/** Versions whose options are assumed where the engine is not installed here: the newest that were tried. */
export const NEWEST = { sglang: "0.5.23", vllm: "0.32.0" } as const;

/** True when a version such as `0.5.10.post1` is at least another one; what follows the numbers is not compared. */
export function isAtLeast(version: string, least: string): boolean {
  const partsOf = (text: string) => (/^\d+(?:\.\d+)*/.exec(text)?.[0] ?? "0").split(".").map(Number);
  const [parts, needed] = [partsOf(version), partsOf(least)];
  for (const [at, part] of needed.entries()) {
    const own = parts[at] ?? 0;
    if (own !== part) return own > part;
  }
  return true;
}
