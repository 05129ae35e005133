import type { AgentEvent } from "../agent/agent_events.ts";
import type { RunRecord } from "../record/run_record.ts";
import type { TraceEvent } from "../record/trace.ts";
import type { Run } from "./run.ts";

/** A run of which only the record is left. */
export class EndedRun implements Run {
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

  onRootTokens(): void {}

  cancel(): Promise<void> {
    return this.ended;
  }
}

async function* nothing(): AsyncGenerator<never, void, undefined> {}
