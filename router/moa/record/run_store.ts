import { charactersOf } from "../../../base/json.ts";
import type { RunRecord } from "./run_record.ts";

/** Most characters, token ids and log-probabilities of texts and prompts that are kept, over all ended runs. */
const MAX_KEPT_SIZE = 32 * 1024 * 1024;

/** The records of ended runs, newest last; the oldest go first when there are too many or they are too long. */
export class RunStore {
  #maxRuns: number;
  readonly #maxSize: number;
  readonly #kept = new Map<string, { readonly record: RunRecord; readonly size: number }>();
  #size = 0;

  constructor(maxRuns: number, maxSize: number = MAX_KEPT_SIZE) {
    this.#maxRuns = maxRuns;
    this.#maxSize = maxSize;
  }

  /** Newest first. */
  records(): RunRecord[] {
    return [...this.#kept.values()].map((kept) => kept.record).reverse();
  }

  add(record: RunRecord): void {
    const size = sizeOf(record);
    this.#kept.set(record.id, { record, size });
    this.#size += size;
    this.#forgetOldest();
  }

  /** Changes the number of records that are kept. */
  setMaxRuns(maxRuns: number): void {
    this.#maxRuns = maxRuns;
    this.#forgetOldest();
  }

  #forgetOldest(): void {
    for (const [id, oldest] of this.#kept) {
      if (this.#kept.size <= this.#maxRuns && this.#size <= this.#maxSize) return;
      this.#kept.delete(id);
      this.#size -= oldest.size;
    }
  }

  get(id: string): RunRecord | undefined {
    return this.#kept.get(id)?.record;
  }
}

function sizeOf(record: RunRecord): number {
  let size = record.request === undefined ? 0 : charactersOf(record.request.body);
  for (const agent of record.agents) {
    size += agent.text.length + agent.reasoning.length + (agent.logprobs?.length ?? 0);
    if (agent.prompt?.kind === "tokens") size += agent.prompt.ids.length;
    if (agent.prompt?.kind === "text") size += agent.prompt.text.length;
    if (agent.prompt?.kind === "chat") size += charactersOf(agent.prompt.messages);
  }
  return size;
}
