const TEXT = '{"text":"';
const IDS = '","output_ids":[';

/** Places of the text and the ids in an event, both without their delimiters. */
interface Shape {
  readonly textEnd: number;
  readonly idsEnd: number;
}

/**
 * Cuts out of each event of a cumulative stream of SGLang's what the event before held already, so that a token late
 * in an answer costs no more to parse than an early one. Works on the JSON as it stands.
 */
export class CumulativeCut {
  #before = "";
  #shape: Shape | undefined;

  /**
   * The event with only what is new in its text and ids. Undefined for an event of another form, and for one that does
   * not continue the one before: it has to be read whole.
   */
  cut(event: string): string | undefined {
    const before = this.#before;
    const old = this.#shape;
    const goesOn = old !== undefined && hasAt(event, 0, before.slice(0, old.textEnd));
    const shape = shapeOf(event, goesOn ? old.textEnd : TEXT.length);
    this.#before = event;
    this.#shape = shape;
    if (!goesOn || shape === undefined) return undefined;
    const oldIds = before.slice(old.textEnd + IDS.length, old.idsEnd);
    const idsStart = shape.textEnd + IDS.length;
    const newIdsStart = idsStart + oldIds.length;
    if (newIdsStart > shape.idsEnd || !hasAt(event, idsStart, oldIds)) return undefined;
    // Between old ids and new ones stands a comma; where there is none, a number may have grown instead.
    const skipped = oldIds === "" || newIdsStart === shape.idsEnd ? 0 : 1;
    if (skipped === 1 && event[newIdsStart] !== ",") return undefined;
    return TEXT + event.slice(old.textEnd, shape.textEnd) + IDS + event.slice(newIdsStart + skipped);
  }

  /** An event was read elsewhere: the next one has to be read whole. */
  forget(): void {
    this.#before = "";
    this.#shape = undefined;
  }
}

/** `startsWith`, some twenty times as fast in V8 for a text of a few thousand characters. */
export function hasAt(text: string, at: number, part: string): boolean {
  return text.slice(at, at + part.length) === part;
}

/** `from`: a place in the text, not inside an escape sequence. Undefined when the event is of another form. */
function shapeOf(event: string, from: number): Shape | undefined {
  if (!event.startsWith(TEXT)) return undefined;
  const textEnd = closingQuote(event, from);
  if (textEnd < 0 || !event.startsWith(IDS, textEnd)) return undefined;
  const idsEnd = event.indexOf("]", textEnd + IDS.length);
  return idsEnd < 0 ? undefined : { textEnd, idsEnd };
}

/** The first quote that is not escaped; -1 when there is none. */
function closingQuote(json: string, from: number): number {
  for (let at = json.indexOf('"', from); at >= 0; at = json.indexOf('"', at + 1)) {
    let slashes = 0;
    while (at - slashes > from && json[at - slashes - 1] === "\\") slashes++;
    if (slashes % 2 === 0) return at;
  }
  return -1;
}
