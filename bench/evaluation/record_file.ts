import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { CanopyError } from "../../base/errors.ts";
import type { EvalRecord } from "./eval_record.ts";

type RecordKey = Pick<EvalRecord, "set" | "question" | "mode" | "repeat">;
type RecordLine = { readonly settings: string } | { readonly record: EvalRecord };

/** The records of an evaluation; with a file they outlive the process, and the next one goes on behind them. */
export class RecordFile {
  readonly #path: string | undefined;
  readonly #records = new Map<string, EvalRecord>();

  /** `settings`: what records depend on. Throws 400 `other_settings` for a file of other ones. */
  constructor(path: string | undefined, settings: string) {
    this.#path = path;
    if (path === undefined) return;
    const text = existsSync(path) ? readFileSync(path, "utf8") : "";
    // A line that was cut off when the process ended is asked again; what follows must not join it.
    if (text !== "" && !text.endsWith("\n")) appendFileSync(path, "\n");
    const lines = text.split("\n").flatMap((line) => readLine(line) ?? []);
    if (lines.length === 0) this.#append({ settings });
    for (const line of lines) {
      if ("record" in line) this.#records.set(keyOf(line.record), line.record);
      else if (line.settings !== settings) {
        throw new CanopyError(
          `Cannot go on with ${path}: it was begun with ${line.settings}, and now it is ${settings}; name another file`,
          { code: "other_settings", status: 400 },
        );
      }
    }
  }

  find(key: RecordKey): EvalRecord | undefined {
    return this.#records.get(keyOf(key));
  }

  add(record: EvalRecord): void {
    this.#records.set(keyOf(record), record);
    this.#append({ record });
  }

  #append(line: RecordLine): void {
    if (this.#path !== undefined) appendFileSync(this.#path, `${JSON.stringify(line)}\n`);
  }
}

function keyOf({ set, question, mode, repeat }: RecordKey): string {
  return [set, question, mode, repeat].join("\0");
}

function readLine(line: string): RecordLine | undefined {
  try {
    const read: RecordLine = JSON.parse(line);
    return read;
  } catch {
    return undefined;
  }
}
