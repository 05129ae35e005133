interface Node<Value> {
  found: Value | undefined;
  readonly next: Map<string, Node<Value>>;
}

/** Finds the longest of some strings at a place in a text of which more may come. */
export class StringFinder<Value> {
  readonly #root: Node<Value> = { found: undefined, next: new Map() };
  /** The first two characters of one of them, the second one unless the text ends there; undefined where there are none. */
  readonly #begin: RegExp | undefined;

  constructor(strings: Iterable<readonly [text: string, value: Value]>) {
    for (const [text, value] of strings) {
      let node = this.#root;
      for (const character of text.split("")) {
        let next = node.next.get(character);
        if (next === undefined) node.next.set(character, next = { found: undefined, next: new Map() });
        node = next;
      }
      node.found = value;
    }
    const begins = [...this.#root.next].map(([first, { found, next }]) =>
      found !== undefined
        ? codeUnit(first)
        : `${codeUnit(first)}(?:[${[...next.keys()].map(codeUnit).join("")}]|$)`
    );
    this.#begin = begins.length === 0 ? undefined : new RegExp(begins.join("|"), "g");
  }

  /** The first place from `from` on where one may begin; the text's length where there is none. */
  next(text: string, from: number): number {
    if (this.#begin === undefined) return text.length;
    this.#begin.lastIndex = from;
    return this.#begin.exec(text)?.index ?? text.length;
  }

  /** The value of the longest string at a place; `undecided` where the text ends before that is certain. */
  at(text: string, from: number, atEnd: boolean): Value | "undecided" | undefined {
    let node = this.#root;
    let found: Value | undefined;
    for (let i = from; i < text.length; i++) {
      const next = node.next.get(text[i]!);
      if (next === undefined) return found;
      found = next.found ?? found;
      node = next;
    }
    return atEnd || node.next.size === 0 ? found : "undecided";
  }
}

function codeUnit(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
