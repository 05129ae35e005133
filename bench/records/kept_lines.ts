import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { CanopyError } from "../../base/errors.ts";
import { differentSettings, settingSides } from "./different_settings.ts";

/** Lines of JSON that outlive the process, all made with the same settings; without a file they are only forgotten. */
export class KeptLines<T extends object> {
  readonly #path: string | undefined;
  /** Those that the file had. */
  readonly before: readonly T[];

  /** `settings`: what lines depend on. Throws 400 `other_settings` for a file of other ones. */
  constructor(path: string | undefined, settings: string) {
    this.#path = path;
    const text = path !== undefined && existsSync(path) ? readFileSync(path, "utf8") : "";
    // A line that was cut off when the process ended is made again; what follows must not join it.
    if (path !== undefined && text !== "" && !text.endsWith("\n")) appendFileSync(path, "\n");
    const lines = readKeptLines<T>(text);
    if (lines.length === 0) this.#append({ settings });
    for (const line of lines) {
      if (!("settings" in line) || line.settings === settings) continue;
      const [begun, now] = settingSides(differentSettings(String(line.settings), settings));
      throw new CanopyError(
        `Cannot go on with ${path}: it was begun with ${begun}, and now it is ${now}; name another file`,
        { code: "other_settings", status: 400 },
      );
    }
    this.before = lines.filter((line): line is T => !("settings" in line));
  }

  append(line: T): void {
    this.#append(line);
  }

  #append(line: object): void {
    if (this.#path !== undefined) appendFileSync(this.#path, `${JSON.stringify(line)}\n`);
  }
}

/** The lines of a text that are whole, that of the settings among them. */
export function readKeptLines<T extends object>(text: string): (T | { readonly settings: string })[] {
  return text.split("\n").flatMap((line) => {
    try {
      const read: T | { readonly settings: string } | null = JSON.parse(line);
      return typeof read === "object" && read !== null ? [read] : [];
    } catch {
      return [];
    }
  });
}
