import { type BlowKind, isCounted, isHarmless } from "./blows.ts";

/** Longest time that a thread takes to end, on a busy machine: until its port is closed it is given connections. */
const THREAD_ENDS_MS = 3_000;

/** What a client of one request saw. */
export interface Seen {
  readonly id: string;
  /** A virtual model, or an engine model as it is. */
  readonly kind: "tree" | "relay";
  /** Models whose workers the request needs. */
  readonly models: readonly string[];
  readonly stream: boolean;
  readonly startMs: number;
  readonly endMs: number;
  /** True when the client went away by itself. */
  readonly left: boolean;
  /** Undefined when no head came. */
  readonly status: number | undefined;
  /** The text of the answer, as far as it came. */
  readonly text: string;
  /** True when any byte of the answer's body came under status 200 before an error. */
  readonly begun: boolean;
  /** True for a whole JSON answer, and for a stream with its `[DONE]` at the end. */
  readonly whole: boolean;
  /** Error bodies and events; more than one is too many. */
  readonly errors: readonly string[];
}

/** A call to one server for a relayed request. */
export interface SeenAttempt {
  readonly worker: number;
  /** vLLM's pairs ask for the prompt's tokens first. */
  readonly step: "tokenize" | "generate";
  readonly atMs: number;
  /** No connection could be made. */
  unsent: boolean;
}

/** A time in which a worker is not to be counted on. */
export interface Spell {
  readonly kind: BlowKind;
  readonly worker: number;
  readonly fromMs: number;
  /** Infinity while it goes on. */
  toMs: number;
  /** Requests that it strikes at most. */
  readonly count: number;
}

/** A worker as the oracle knows it. */
export interface KnownWorker {
  readonly model: string;
  readonly role?: "prefill" | "decode" | undefined;
}

/** Limits that the router works under. */
export interface Rules {
  readonly retries: number;
  /** Longest time that the router may need to see that a worker is well again, or that it is ill. */
  readonly noticeMs: number;
  readonly firstTokenMs: number;
  /** True where a decode server reads prompts itself when no prefill server is there. */
  readonly decodesAlone: boolean;
  /** Models whose servers answer to any name: until the next check another model's answers are taken for theirs. */
  readonly anyName: ReadonlySet<string>;
  /** False where nobody sees the attempts: then blows are counted, as for trees. */
  readonly countsAttempts?: boolean | undefined;
}

/**
 * The oracle: knows what happened to the workers, and tells which answers must not be.
 *
 * A request is **savable** while the client is there, has seen no byte of an answer (or the answer can be resumed, as
 * an agent's can), has attempts left, its time limit is not over, and some place is well: up, reachable, with the right
 * model, for long enough that the router can know it. A savable request must not be lost. Besides: no answer differs
 * from that of an undisturbed run, none comes twice or is followed by anything, nothing fails without a cause, and each
 * failure has the status of its cause.
 */
export class Oracle {
  readonly spells: Spell[] = [];
  /** When one of the router's threads was told to end: what it has taken breaks off, and nothing else may. */
  readonly threadEndsMs: number[] = [];
  readonly attempts = new Map<string, SeenAttempt[]>();
  readonly #workers: readonly KnownWorker[];
  readonly #rules: Rules;

  constructor(workers: readonly KnownWorker[], rules: Rules) {
    this.#workers = workers;
    this.#rules = rules;
  }

  /** A worker is not to be counted on from now on; set `toMs` when it is again. */
  begin(kind: BlowKind, worker: number, fromMs: number, count = 1): Spell {
    const spell = { kind, worker, fromMs, toMs: Infinity, count };
    this.spells.push(spell);
    return spell;
  }

  noteAttempt(id: string, attempt: SeenAttempt): void {
    const attempts = this.attempts.get(id);
    if (attempts === undefined) this.attempts.set(id, [attempt]);
    else attempts.push(attempt);
  }

  /** The sentence that says what is wrong with an answer; undefined for a right one. */
  judge(seen: Seen, expected: string): string | undefined {
    const wrong = this.#wrong(seen, expected);
    if (wrong === undefined) return undefined;
    const { id, kind, stream, status, startMs, endMs, errors } = seen;
    const spells = this.spells.map((spell) =>
      `${spell.kind} of ${spell.worker} from ${spell.fromMs} to ${spell.toMs}`
    );
    return `${kind} ${id}${
      stream ? " (stream)" : ""
    } from ${startMs} to ${endMs} ms, status ${status}: ${wrong}` +
      `; ${errors.join(" ")}; attempts ${JSON.stringify(this.attempts.get(id) ?? [])}; ${spells.join(", ")}`;
  }

  #wrong(seen: Seen, expected: string): string | undefined {
    const { text, status, errors, whole, left } = seen;
    if (errors.length > 1) return "it failed twice";
    if (this.#fromImpostor(seen)) return undefined;
    if (!expected.startsWith(text)) {
      return `its text is ${JSON.stringify(text)}, not ${JSON.stringify(expected)}`;
    }
    if (whole && errors.length > 0) return "it is whole, and has an error";
    if (whole && status === 200) {
      return text === expected ? undefined : `it ends early: ${JSON.stringify(text)}`;
    }
    if (left || this.#endedWithThread(seen)) return undefined;
    if (status === 200 && !seen.begun && errors.length === 0) return "nothing came under status 200";
    return this.#wrongStatus(seen) ?? this.#uncaused(seen) ?? this.#lost(seen);
  }

  /** Its connection was cut without a word while a thread of the router ended. */
  #endedWithThread({ startMs, endMs, errors }: Seen): boolean {
    return errors.length === 0 &&
      this.threadEndsMs.some((atMs) => startMs <= atMs + THREAD_ENDS_MS && atMs <= endMs);
  }

  /** No router can see that SGLang serves another model but by asking for it, which the checks do. */
  #fromImpostor({ models, startMs, endMs, kind, id }: Seen): boolean {
    const asked = new Set(this.attempts.get(id)?.map(({ worker }) => worker));
    return this.spells.some(({ kind: blow, worker, fromMs, toMs }) =>
      blow === "impostor" && this.#rules.anyName.has(this.#workers[worker]?.model ?? "") &&
      (kind === "tree" || this.#rules.countsAttempts === false
        ? this.#serves(worker, models)
        : asked.has(worker)) &&
      fromMs <= endMs &&
      toMs + this.#rules.noticeMs >= startMs
    );
  }

  #wrongStatus({ status, begun, stream, errors, startMs, endMs, id }: Seen): string | undefined {
    if (status === undefined) return "the connection broke without an answer";
    if (status === 200) {
      if (!begun) return "an error came under status 200 before anything else";
      return stream && errors.length === 0
        ? "the stream ended without [DONE] and without an error"
        : undefined;
    }
    if (![502, 503, 504].includes(status)) return "no cause has this status";
    if (errors.length === 0) return "it says no reason";
    if (status === 504 && endMs - startMs < this.#rules.firstTokenMs) return "no time limit was over";
    // Of trees nobody counts the attempts here.
    if (status === 502 && this.attempts.get(id)?.length === 0) return "no worker was asked";
    return undefined;
  }

  /** Nothing fails because of an operator's change, nor by itself. */
  #uncaused({ models, startMs, endMs }: Seen): string | undefined {
    const { noticeMs } = this.#rules;
    const caused =
      this.spells.some((spell) =>
        !isHarmless(spell.kind) && this.#serves(spell.worker, models) && spell.fromMs <= endMs &&
        spell.toMs + noticeMs >= startMs
      ) || models.some((model) => !this.#canServe(model, startMs, endMs));
    return caused ? undefined : "nothing had happened to its workers";
  }

  #lost(seen: Seen): string | undefined {
    if (seen.kind === "relay" && (seen.begun || seen.status === 504)) return undefined;
    const counts = seen.kind === "relay" && this.#rules.countsAttempts !== false;
    return counts ? this.#lostRelay(seen) : this.#lostTree(seen);
  }

  #lostRelay({ id, models, endMs }: Seen): string | undefined {
    const attempts = this.attempts.get(id) ?? [];
    if (this.#paid(attempts) > this.#rules.retries) return undefined;
    return models.every((model) => this.#canServe(model, endMs, endMs))
      ? `lost: it had attempts left (${this.#paid(attempts)} of ${
        1 + this.#rules.retries
      }), and a place was well`
      : undefined;
  }

  /** An agent's answer goes on elsewhere: as long as every model has a well place, so few blows cost no tree. */
  #lostTree({ models, startMs, endMs }: Seen): string | undefined {
    const { noticeMs, retries } = this.#rules;
    let blows = 0;
    for (const { kind, worker, fromMs, toMs, count } of this.spells) {
      const touches = this.#serves(worker, models) && fromMs <= endMs && toMs + noticeMs >= startMs;
      if (touches && !isHarmless(kind)) blows += count;
    }
    if (blows > retries) return undefined;
    return models.every((model) => this.#canServe(model, startMs, endMs))
      ? `lost: ${blows} blows, ${retries} retries, and every model had a well place all the time`
      : undefined;
  }

  /**
   * Attempts that count: one that could not be sent to a whole server is free, when the next goes to a server that was
   * not asked yet. SGLang's halves get a request at once; of vLLM's, each may be an attempt.
   */
  #paid(all: readonly SeenAttempt[]): number {
    const attempts = all.filter(({ step }) => step === "generate");
    const roleOf = ({ worker }: SeenAttempt) => this.#workers[worker]?.role;
    const whole = attempts.filter((attempt) => roleOf(attempt) === undefined);
    const asked = new Set<number>();
    const paid = whole.filter(({ worker, unsent }, index) => {
      asked.add(worker);
      const next = whole[index + 1];
      return !unsent || next === undefined || asked.has(next.worker);
    });
    const at = (role: "prefill" | "decode") => attempts.filter((attempt) => roleOf(attempt) === role).length;
    const prefills = Math.max(at("prefill"), all.length - attempts.length);
    const decodes = at("decode");
    return paid.length + (this.#rules.decodesAlone ? prefills + decodes : Math.max(prefills, decodes));
  }

  /** True when a place was well all that time, and, where it had been ill before, long enough for the router to know. */
  #canServe(model: string, fromMs: number, toMs: number): boolean {
    const { noticeMs } = this.#rules;
    const ill = (index: number) =>
      this.spells.some((spell) =>
        spell.worker === index && spell.fromMs <= toMs &&
        spell.toMs + (isCounted(spell.kind) ? 0 : noticeMs) >= fromMs
      );
    const well = this.#workers.filter((worker, index) => worker.model === model && !ill(index));
    const has = (role: KnownWorker["role"]) => well.some((worker) => worker.role === role);
    if (has(undefined)) return true;
    return has("decode") && (has("prefill") || this.#rules.decodesAlone);
  }

  #serves(worker: number, models: readonly string[]): boolean {
    return models.includes(this.#workers[worker]?.model ?? "");
  }
}
