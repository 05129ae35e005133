/** Where a text stops being JSON, and why. */
export interface JsonFault {
  /** Offset in UTF-16 code units from the start of the text. */
  readonly position: number;
  /** Such as `a value` or `"," or "}"`. */
  readonly expected: string;
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const LITERAL = /true|false|null/y;
const SPACE = /[ \t\n\r]*/y;
const STRING_RULE = "a string that is closed, with line breaks and quotes escaped";

/**
 * Finds the first fault of a text that `JSON.parse` has refused (RFC 8259); undefined when there is none.
 * The runtimes' own messages differ, and Bun's name no position. Does not recurse: depth is no danger.
 */
export function findJsonFault(text: string): JsonFault | undefined {
  let at = 0;
  const take = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const found = pattern.test(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const open: ("[" | "{")[] = [];
  const key = (): JsonFault | undefined => {
    take(SPACE);
    if (text[at] !== '"') return { position: at, expected: "a property name in double quotes" };
    if (!takeString()) return { position: at, expected: STRING_RULE };
    take(SPACE);
    if (text[at] !== ":") return { position: at, expected: '":"' };
    at++;
    return undefined;
  };
  /** Steps over a string, or to its fault. A loop: one regular expression would overflow on long strings. */
  const takeString = (): boolean => {
    at++;
    while (at < text.length) {
      const unit = text.charCodeAt(at);
      if (unit < 0x20) return false;
      if (unit === 0x5c) {
        if (!take(ESCAPE)) return false;
        continue;
      }
      at++;
      if (unit === 0x22) return true;
    }
    return false;
  };

  value: while (true) {
    take(SPACE);
    const opening = text[at];
    if (opening === "{" || opening === "[") {
      at++;
      take(SPACE);
      if (text[at] === (opening === "{" ? "}" : "]")) at++;
      else {
        open.push(opening);
        const fault = opening === "{" ? key() : undefined;
        if (fault !== undefined) return fault;
        continue;
      }
    } else if (opening === '"') {
      if (!takeString()) return { position: at, expected: STRING_RULE };
    } else if (!take(NUMBER) && !take(LITERAL)) return { position: at, expected: "a value" };

    while (true) {
      take(SPACE);
      const inside = open.at(-1);
      if (inside === undefined) return at < text.length ? { position: at, expected: "the end" } : undefined;
      const closing = inside === "{" ? "}" : "]";
      if (text[at] === ",") {
        at++;
        const fault = inside === "{" ? key() : undefined;
        if (fault !== undefined) return fault;
        continue value;
      }
      if (text[at] !== closing) return { position: at, expected: `"," or "${closing}"` };
      at++;
      open.pop();
    }
  }
}
