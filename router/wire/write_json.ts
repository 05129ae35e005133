import { joinedInTurns } from "../../base/bytes.ts";
import type { Json, JsonObject } from "../../base/json.ts";
import type { Turns } from "../../base/turns.ts";

/** Token ids that are written in a turn. */
const TURN_IDS = 64 * 1024;

const encoder = new TextEncoder();

/** True for a body with a list of so many token ids that they are not to be written in one turn. */
export function hasManyIds(body: JsonObject): boolean {
  for (const name in body) if (isManyIds(body[name])) return true;
  return false;
}

/** JSON of a body, as `JSON.stringify` writes it, a part of its many token ids a turn. */
export function* writeInTurns(body: JsonObject): Turns<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let before = "{";
  for (const [name, value] of Object.entries(body)) {
    if (value === undefined) continue;
    before += `${JSON.stringify(name)}:`;
    if (isManyIds(value)) {
      before += "[";
      for (let at = 0; at < value.length; at += TURN_IDS) {
        const part = JSON.stringify(value.slice(at, at + TURN_IDS)).slice(1, -1);
        pieces.push(encoder.encode(before + part));
        before = ",";
        yield;
      }
      before = "],";
    } else before += `${JSON.stringify(value)},`;
  }
  pieces.push(encoder.encode(`${before === "{" ? before : before.slice(0, -1)}}`));
  return yield* joinedInTurns(pieces);
}

function isManyIds(value: Json | undefined): value is Json[] {
  return Array.isArray(value) && value.length > TURN_IDS && typeof value[0] === "number";
}
