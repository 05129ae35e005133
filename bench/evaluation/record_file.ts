import { KeptLines } from "../records/kept_lines.ts";
import type { EvalRecord } from "./eval_record.ts";
import { type RecordKey, recordKey } from "./read_records.ts";

/** The records of an evaluation; with a file they outlive the process, and the next one goes on behind them. */
export class RecordFile {
  readonly #kept: KeptLines<{ readonly record: EvalRecord }>;
  readonly #records = new Map<string, EvalRecord>();

  /** `settings`: what records depend on. Throws 400 `other_settings` for a file of other ones. */
  constructor(path: string | undefined, settings: string) {
    this.#kept = new KeptLines(path, settings);
    for (const { record } of this.#kept.before) this.#records.set(recordKey(record), record);
  }

  find(key: RecordKey): EvalRecord | undefined {
    return this.#records.get(recordKey(key));
  }

  add(record: EvalRecord): void {
    this.#records.set(recordKey(record), record);
    this.#kept.append({ record });
  }
}
