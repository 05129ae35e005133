/**
 * True when version `a` came before `b`, by the numbers of both: `0.5.3.post3` is newer than `0.5.3`, and a
 * release candidate or development build (`0.5.3rc1`) counts as the release it leads to.
 */
export function olderThan(a: string, b: string): boolean {
  const left = numbers(a);
  const right = numbers(b);
  for (let at = 0; at < Math.max(left.length, right.length); at++) {
    const difference = (left[at] ?? 0) - (right[at] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}

/** Versions that were read; there are as many as servers differ, so it is emptied when it should ever be full. */
const READ = new Map<string, readonly number[]>();
const MAX_READ = 64;

function numbers(version: string): readonly number[] {
  let read = READ.get(version);
  if (read === undefined) {
    if (READ.size >= MAX_READ) READ.clear();
    READ.set(version, read = readNumbers(version));
  }
  return read;
}

function readNumbers(version: string): number[] {
  const post = /\.post(\d+)/.exec(version)?.[1];
  const release = /^v?(\d+(?:\.\d+)*)/.exec(version.trim())?.[1] ?? "0";
  const parts = release.split(".").map(Number);
  while (parts.length < 3) parts.push(0);
  return [...parts.slice(0, 3), Number(post ?? 0)];
}
