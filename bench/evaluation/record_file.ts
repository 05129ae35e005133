import { KeptLines } from "../records/kept_lines.ts";
import type { EvalRecord } from "./eval_record.ts";
import { type RecordKey, recordKey, withoutRunTexts } from "./read_records.ts";

/** The records of an evaluation; with a file they outlive the process, and the next one goes on behind them. */
export class RecordFile {
  readonly #kept: KeptLines<{ readonly record: EvalRecord }>;
  readonly #records = new Map<string, EvalRecord>();
  readonly #holdsTexts: boolean;

  /**
   * `settings`: what records depend on. `holdsTexts`: what a run's agents wrote, and decided, is held in memory, too, and
   * not in the file alone; by default it is not. Throws 400 `other_settings` for a file of other ones.
   */
  constructor(
    path: string | undefined,
    settings: string,
    { holdsTexts = false }: { readonly holdsTexts?: boolean | undefined } = {},
  ) {
    this.#holdsTexts = holdsTexts;
    this.#kept = new KeptLines(path, settings, ({ record }) => this.#hold(record));
  }

  find(key: RecordKey): EvalRecord | undefined {
    return this.#records.get(recordKey(key));
  }

  /** Keeps a record, and gives it as it is held. */
  add(record: EvalRecord): EvalRecord {
    this.#kept.append({ record });
    return this.#hold(record);
  }

  #hold(record: EvalRecord): EvalRecord {
    const held = this.#holdsTexts ? record : withoutRunTexts(record);
    this.#records.set(recordKey(record), held);
    return held;
  }
}
