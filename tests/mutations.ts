import type { Random } from "../base/random.ts";

/** A text with up to three mutations: at a place up to two characters leave, and mostly one of the pieces comes. */
export function mutated(text: string, pieces: readonly string[], random: Random): string {
  for (let n = random.int(4); n > 0; n--) {
    const at = random.int(text.length + 1);
    const piece = random.int(3) > 0 ? random.pick(pieces) : "";
    text = text.slice(0, at) + piece + text.slice(at + random.int(3));
  }
  return text;
}
