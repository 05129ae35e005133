import { CanopyError } from "../../../base/errors.ts";
import { AsyncQueue } from "../../../base/queue.ts";
import { StopFilter } from "../../engines/protocol/stop_filter.ts";
import type { Admission } from "../gate/admission.ts";
import type { CompletionPlan } from "./plan.ts";
import type { RunInput } from "../../moa/graph/run_input.ts";
import type { Moa } from "../../moa/run/moa.ts";
import type { Run, RunEvent } from "../../moa/run/run.ts";

/** Events between the runs and the client; a full queue pauses the roots. */
const QUEUE_CAPACITY = 16;

/** Options of a group; `onRunStarted` is called for each run. */
export interface RunGroupOptions {
  readonly moa: Moa;
  readonly admission: Admission;
  readonly plan: CompletionPlan;
  /** Of the runs. */
  readonly owner: string | undefined;
  readonly signal: AbortSignal;
  readonly onRunStarted: (run: Run) => void;
}

/**
 * The runs of one request, one per prompt, as one stream of events whose indices count over all prompts.
 * Each run holds a place. The first place is waited for; more runs start side by side only while places are free
 * and nobody waits for them, so that a long list of prompts neither starves others nor waits for itself.
 */
export class RunGroup {
  readonly #options: RunGroupOptions;
  readonly #queue = new AsyncQueue<RunEvent>(QUEUE_CAPACITY);
  /** Aborts the other runs when one has failed. */
  readonly #controller = new AbortController();
  readonly #runs: Run[] = [];
  readonly #unlink: () => void;
  #nextInput = 0;
  #openOutputs: number;
  #lanes = 0;

  private constructor(options: RunGroupOptions) {
    this.#options = options;
    this.#openOutputs = options.plan.inputs.length;
    const { signal } = options;
    const onAbort = () => this.#fail(signal.reason);
    this.#unlink = () => signal.removeEventListener("abort", onAbort);
    signal.addEventListener("abort", onAbort, { once: true });
  }

  /** Waits for a place and starts. Throws 429 or 503 when there is none, 400 when the request does not fit. */
  static async start(options: RunGroupOptions): Promise<RunGroup> {
    const release = await options.admission.take(options.signal);
    if (options.signal.aborted) {
      release();
      throw options.signal.reason;
    }
    const group = new RunGroup(options);
    group.#lanes++;
    void group.#runLane(release, group.#nextInput++);
    return group;
  }

  /** The runs started so far, in the order of their start. */
  get runs(): readonly Run[] {
    return this.#runs;
  }

  /** To be read once; throws the first error of any run. Ending the iteration early stops all runs. */
  async *events(): AsyncGenerator<RunEvent, void, undefined> {
    let complete = false;
    try {
      for await (const event of this.#queue) yield event;
      complete = true;
    } finally {
      if (!complete) this.#controller.abort(this.#options.signal.reason ?? abandoned());
    }
  }

  /** Runs prompts one after the other on one place. Never rejects: its errors end the queue. */
  async #runLane(release: () => void, first: number): Promise<void> {
    const { admission, plan } = this.#options;
    try {
      for (let index = first; index < plan.inputs.length; index = this.#nextInput++) {
        await this.#runOne(plan.inputs[index]!, index);
        if (admission.waiting > 0 && this.#lanes > 1) break;
      }
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#lanes--;
      release();
    }
  }

  #openMoreLanes(): void {
    while (this.#nextInput < this.#options.plan.inputs.length) {
      const release = this.#options.admission.tryTake();
      if (release === undefined) return;
      const index = this.#nextInput++;
      this.#lanes++;
      // Not at once: each lane opens more, as deep as the list is long.
      void Promise.resolve().then(() => this.#runLane(release, index));
    }
  }

  async #runOne(input: RunInput, index: number): Promise<void> {
    const { moa, plan, owner, onRunStarted } = this.#options;
    this.#controller.signal.throwIfAborted();
    const run = moa.start(plan.graph, { ...input, owner }, this.#controller.signal);
    this.#runs.push(run);
    onRunStarted(run);
    this.#openMoreLanes();
    let open = plan.choices;
    try {
      const output = plan.ownStops.length === 0 ? run.output : stoppedOutput(run, plan);
      for await (const event of output) {
        if (event.type === "end") open--;
        await this.#queue.push({ ...event, index: index * plan.choices + event.index });
      }
      if (open > 0) {
        throw new CanopyError(`The run ${run.id} ended with ${open} of ${plan.choices} choices unfinished`, {
          code: "run_incomplete",
          status: 502,
        });
      }
      if (plan.include !== undefined) await run.ended;
      if (--this.#openOutputs === 0) this.#close();
    } catch (error) {
      this.#fail(error);
    } finally {
      // The place is free when no engine works for the run any more.
      await run.ended;
    }
  }

  #fail(error: unknown): void {
    this.#unlink();
    this.#queue.fail(error);
    this.#controller.abort(error);
  }

  #close(): void {
    this.#unlink();
    this.#queue.close();
  }
}

function abandoned(): CanopyError {
  return new CanopyError("The answer is no longer wanted", { code: "client_gone", status: 499 });
}

/**
 * A run's output, each choice of which ends at the router's own stops; the run is told, so that the root stops
 * decoding there.
 */
export async function* stoppedOutput(
  run: Pick<Run, "output" | "satisfy">,
  plan: Pick<CompletionPlan, "choices" | "ownStops">,
): AsyncGenerator<RunEvent, void, undefined> {
  const filters = Array.from({ length: plan.choices }, () => new StopFilter(plan.ownStops));
  for await (const event of run.output) {
    const filter = filters[event.index];
    if (filter === undefined || filter.stopped) continue;
    const { index } = event;
    if (event.type === "end") {
      const rest = filter.flush();
      if (rest !== "") yield { type: "delta", index, delta: { type: "delta", text: rest } };
      yield event;
      continue;
    }
    const text = filter.push(event.delta.text);
    if (filter.stopped) run.satisfy(index);
    yield { ...event, delta: { ...event.delta, text } };
    if (filter.stopped) yield { type: "end", index, finishReason: "stop", stopReason: filter.found };
  }
}
