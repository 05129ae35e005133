import type { AgentEvent, Run, RunRecord, TraceEvent } from "./run_types.ts";

/** Most characters and token ids of texts and prompts that are kept, over all ended runs. */
const MAX_KEPT_SIZE = 32 * 1024 * 1024;

/** The records of ended runs, newest last; the oldest go first when there are too many or they are too long. */
export class RunStore {
  readonly #maxRuns: number;
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
    for (const [id, oldest] of this.#kept) {
      if (this.#kept.size <= this.#maxRuns && this.#size <= this.#maxSize) return;
      this.#kept.delete(id);
      this.#size -= oldest.size;
    }
  }

  get(id: string): Run | undefined {
    const kept = this.#kept.get(id);
    return kept === undefined ? undefined : new EndedRun(kept.record);
  }
}

/** A run of which only the record is left. */
class EndedRun implements Run {
  readonly id: string;
  readonly output: AsyncIterable<never> = nothing();
  readonly ended: Promise<void> = Promise.resolve();
  readonly #record: RunRecord;

  constructor(record: RunRecord) {
    this.id = record.id;
    this.#record = record;
  }

  usage(): RunRecord["usage"] {
    return this.#record.usage;
  }

  record(): RunRecord {
    return this.#record;
  }

  async *events(signal: AbortSignal): AsyncGenerator<TraceEvent, void, undefined> {
    for (const event of this.#record.events) {
      signal.throwIfAborted();
      yield await Promise.resolve(event);
    }
  }

  async *agentEvents(signal: AbortSignal): AsyncGenerator<AgentEvent, void, undefined> {
    for (const record of this.#record.agents) {
      signal.throwIfAborted();
      const { id: agent, text, reasoning } = record;
      yield await Promise.resolve({ type: "delta", agent, text, reasoning });
      yield { type: "end", agent, record };
    }
  }

  satisfy(): void {}

  cancel(): Promise<void> {
    return this.ended;
  }
}

async function* nothing(): AsyncGenerator<never, void, undefined> {}

function sizeOf(record: RunRecord): number {
  let size = 0;
  for (const agent of record.agents) {
    size += agent.text.length + agent.reasoning.length;
    if (agent.prompt?.kind === "tokens") size += agent.prompt.ids.length;
    if (agent.prompt?.kind === "text") size += agent.prompt.text.length;
    if (agent.prompt?.kind === "chat") size += JSON.stringify(agent.prompt.messages).length;
  }
  return size;
}
