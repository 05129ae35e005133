import { appendFileSync, closeSync, existsSync, openSync, readSync, statSync } from "node:fs";
import { CanopyError } from "../../base/errors.ts";
import { differentSettings, settingSides } from "./different_settings.ts";

/** Bytes that are read at once: a file may be larger than a text can be. */
const READ_BYTES = 1024 * 1024;

/** Lines of JSON that outlive the process, all made with the same settings; without a file they are only forgotten. */
export class KeptLines<T extends object> {
  readonly #path: string | undefined;

  /**
   * `settings`: what lines depend on; `onLine` gets each line that the file has. Throws 400 `other_settings` for a file of
   * other ones.
   */
  constructor(path: string | undefined, settings: string, onLine: (line: T) => void) {
    this.#path = path;
    let isNew = true;
    for (const line of path !== undefined && existsSync(path) ? readKeptLines<T>(path) : []) {
      isNew = false;
      if (!("settings" in line)) onLine(line);
      else if (line.settings !== settings) throw otherSettings(path, String(line.settings), settings);
    }
    // A line that was cut off when the process ended is made again; what follows must not join it.
    if (path !== undefined && !endsWithLine(path)) appendFileSync(path, "\n");
    if (isNew) this.#append({ settings });
  }

  append(line: T): void {
    this.#append(line);
  }

  #append(line: object): void {
    if (this.#path !== undefined) appendFileSync(this.#path, `${JSON.stringify(line)}\n`);
  }
}

/** The lines of a file that are whole, that of the settings among them, one by one. Throws where it cannot be read. */
export function* readKeptLines<T extends object>(
  path: string,
): Generator<T | { readonly settings: string }, void, undefined> {
  for (const line of textLines(path)) {
    try {
      const read: T | { readonly settings: string } | null = JSON.parse(line);
      if (typeof read === "object" && read !== null) yield read;
    } catch {
      // Cut off, or none of ours.
    }
  }
}

function* textLines(path: string): Generator<string, void, undefined> {
  const file = openSync(path, "r");
  try {
    const decoder = new TextDecoder();
    const bytes = new Uint8Array(READ_BYTES);
    let held: string[] = [];
    for (let count = readSync(file, bytes); count > 0; count = readSync(file, bytes)) {
      const [first = "", ...others] = decoder.decode(bytes.subarray(0, count), { stream: true }).split("\n");
      held.push(first);
      if (others.length === 0) continue;
      yield held.join("");
      yield* others.slice(0, -1);
      held = [others.at(-1)!];
    }
    yield held.join("") + decoder.decode();
  } finally {
    closeSync(file);
  }
}

/** True for a file that is empty, or not there, too. */
function endsWithLine(path: string): boolean {
  const size = existsSync(path) ? statSync(path).size : 0;
  if (size === 0) return true;
  const file = openSync(path, "r");
  try {
    const last = new Uint8Array(1);
    readSync(file, last, 0, 1, size - 1);
    return last[0] === 0x0a;
  } finally {
    closeSync(file);
  }
}

function otherSettings(path: string | undefined, before: string, after: string): CanopyError {
  const [begun, now] = settingSides(differentSettings(before, after));
  return new CanopyError(
    `Cannot go on with ${path}: it was begun with ${begun}, and now it is ${now}; name another file`,
    { code: "other_settings", status: 400 },
  );
}
