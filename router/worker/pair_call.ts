import { joined } from "../../base/bytes.ts";
import type { Clock } from "../../base/clock.ts";
import type { IncomingResponse } from "../../base/transport.ts";
import { type Answer, answerFailure, errorEventStatus } from "./answer_failure.ts";
import { type CalledWorker, LEFT, type Read, type ReadFilter, type UpstreamCall } from "./upstream_call.ts";
import type { Placement } from "./placement.ts";

/** Longest wait for a prefill server that has done its work to say so. */
const PREFILL_TRAILER_MS = 1_000;
/** Longest wait for a prefill that must not be aborted. */
const PREFILL_FINISH_MS = 10_000;
/** Longest prefill answer that is kept. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024;

/**
 * Messages of SGLang's servers for a hand-off between them that failed: each names the step at which it gave up, and
 * neither knows whose fault it was.
 */
const HAND_OFF_FAILURE =
  /KVTransferError|KVPoll\.|(?:Prefill|Decode) (?:bootstrap|transfer|handshake) failed|Lost connection with prefill/;

/** Both halves of a request that the two servers of an SGLang pair get at once. */
export interface PairCallOptions {
  readonly clock: Clock;
  readonly at: Pick<Placement, "release">;
  readonly prefill: UpstreamCall;
  readonly decode: UpstreamCall;
  /** True where a prefill that is aborted while it waits costs its server a buffer for ever (SGLang before 0.5.10). */
  readonly finishPrefill: boolean;
  /** True when `prefillAnswer` will be asked for. */
  readonly keepPrefill?: boolean | undefined;
}

/**
 * One request on both servers of a pair. Decode's answer is the answer; prefill's is read beside it and gates nothing,
 * but when prefill fails or refuses before decode has begun, its answer or error is the call's, at once. Whichever half
 * fails, the other is aborted, and both were told when the call has ended.
 */
export class PairCall implements UpstreamCall {
  readonly #clock: Clock;
  readonly #at: PairCallOptions["at"];
  readonly #decode: UpstreamCall;
  readonly #finishPrefill: boolean;
  readonly #keepPrefill: boolean;
  /** Until it has ended well: answers last, and nothing is left to say to it. */
  #prefill: UpstreamCall | undefined;
  /** The half whose answer is passed on. */
  #answering: UpstreamCall;
  /** Decode's answer or error, or that of a prefill half that failed before decode had begun: whichever came first. */
  readonly #answer = Promise.withResolvers<IncomingResponse>();
  #decodeBegan = false;
  #refused = false;
  #wellEnded = false;
  readonly #failed: ("prefill" | "decode")[] = [];
  #prefillEnded = false;
  #prefillAnswer: Uint8Array | undefined;
  #prefilled: Promise<void> = Promise.resolve();
  #stopped: Promise<void> | undefined;

  constructor(options: PairCallOptions) {
    this.#clock = options.clock;
    this.#at = options.at;
    this.#prefill = options.prefill;
    this.#decode = options.decode;
    this.#finishPrefill = options.finishPrefill;
    this.#keepPrefill = options.keepPrefill === true;
    this.#answering = options.decode;
  }

  get worker(): CalledWorker {
    return this.#answering.worker;
  }

  get half(): "prefill" | "decode" {
    return this.#answering === this.#decode ? "decode" : "prefill";
  }

  open(): Promise<IncomingResponse> {
    this.#prefilled = this.#readPrefill(this.#prefill!);
    this.#decode.open().then((response) => {
      this.#decodeBegan = this.half === "decode";
      this.#answered(this.#decode, response);
    }, this.#answer.reject);
    return this.#answer.promise;
  }

  #answered(half: UpstreamCall, response: IncomingResponse): void {
    // The other one is.
    if (half !== this.#answering) return;
    this.#refused = response.status >= 400;
    this.#answer.resolve(response);
  }

  get first(): Uint8Array | undefined {
    return this.#answering.first;
  }

  get whole(): boolean {
    return this.#answering.whole;
  }

  next(): Promise<Read> {
    return this.#answering.next();
  }

  read<T>(filter: ReadFilter<T>): Promise<T> {
    return this.#answering.read(filter);
  }

  async return(): Promise<Read> {
    await this.stop(LEFT);
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  gotToken(): void {
    this.#answering.gotToken();
  }

  complete(): void {
    this.#wellEnded = true;
    this.#answering.complete();
  }

  /** Prefill's whole answer, once it has ended well; undefined when it has not. For a pair that keeps it. */
  async prefillAnswer(): Promise<Uint8Array | undefined> {
    await this.#prefilled;
    return this.#prefillAnswer;
  }

  /** Counts a failure against the half that it came from, or against both when they failed to meet. */
  blame(message: string): void {
    const both = isHandOffFailure(message);
    for (const half of ["prefill", "decode"] as const) if (both || this.half === half) this.#fail(half);
  }

  #fail(half: "prefill" | "decode"): void {
    if (this.#failed.includes(half)) return;
    this.#failed.push(half);
    this.#at.release("failed", half);
  }

  stop(reason: unknown): Promise<void> {
    return this.#stopped ??= this.#stop(reason);
  }

  async drop(): Promise<void> {
    const dropped = this.#decode.drop();
    if (this.half === "prefill") return await this.#prefill?.drop();
    if (this.#finishPrefill) await this.#within(PREFILL_FINISH_MS);
    await this.#stopPrefill();
    await dropped;
  }

  close(): Promise<void> {
    if (this.#stopped !== undefined) return this.#stopped;
    // Both halves have come to their ends.
    if (this.#wellEnded && this.#prefillEnded && this.half === "decode") return this.#decode.close();
    return this.#close();
  }

  async #close(): Promise<void> {
    if (this.half === "prefill") {
      return void await Promise.all([this.#prefill?.close(), this.#decode.close()]);
    }
    // What prefill still has to say after a good answer is short.
    if (this.#wellEnded && !this.#refused) await this.#within(PREFILL_TRAILER_MS);
    else if (this.#finishPrefill) await this.#within(PREFILL_FINISH_MS);
    await Promise.all([this.#decode.close(), this.#stopPrefill()]);
    await this.#prefilled;
  }

  async #stop(reason: unknown): Promise<void> {
    if (this.#finishPrefill) await this.#within(PREFILL_FINISH_MS);
    this.#prefillEnded = true;
    await Promise.all([this.#prefill?.stop(reason), this.#decode.stop(reason)]);
  }

  /** Reads the prefill half to its end. Never rejects. */
  async #readPrefill(prefill: UpstreamCall): Promise<void> {
    try {
      const response = await prefill.open();
      const { first } = prefill;
      const answer = { worker: prefill.worker, response, first };
      if (response.status >= 400 || errorEventStatus(first) !== undefined || isFailed(answer)) {
        this.#failPrefill(prefill, answer);
        return this.#answered(prefill, response);
      }
      prefill.gotToken();
      if (prefill.whole) this.#prefillAnswer = this.#keepPrefill ? first : undefined;
      else await this.#drainPrefill(prefill);
      this.#prefillEnded = true;
      this.#at.release("ok", "prefill");
      this.#prefill = undefined;
      await prefill.close();
    } catch (error) {
      if (this.#prefillEnded) return;
      this.#failPrefill(prefill, undefined);
      this.#answer.reject(error);
    }
  }

  async #drainPrefill(prefill: UpstreamCall): Promise<void> {
    const kept: Uint8Array[] = [];
    let length = 0;
    while (true) {
      const { done, value } = await prefill.next();
      if (done === true) break;
      if (!this.#keepPrefill) continue;
      length += value.length;
      if (length > MAX_KEPT_BYTES) {
        throw new Error(`the prefill server's answer is longer than ${MAX_KEPT_BYTES} bytes`);
      }
      kept.push(value);
    }
    if (this.#keepPrefill) this.#prefillAnswer = joined(kept);
  }

  #failPrefill(prefill: UpstreamCall, answer: Answer | undefined): void {
    this.#prefillEnded = true;
    // Once decode has begun it needs the other half no more: that one's failure is its own affair.
    if (!this.#decodeBegan) this.#answering = prefill;
    if (answer === undefined || isFailed(answer)) this.#fail("prefill");
    if (this.#decodeBegan) void prefill.drop();
    else void this.#decode.stop(new Error("The prefill server has failed"));
  }

  async #stopPrefill(): Promise<void> {
    if (this.#prefillEnded) return;
    this.#prefillEnded = true;
    await this.#prefill?.stop(LEFT);
  }

  async #within(limitMs: number): Promise<void> {
    if (this.#prefillEnded) return;
    let cancel = () => {};
    const late = new Promise<void>((resolve) => cancel = this.#clock.timer(limitMs, resolve));
    await Promise.race([this.#prefilled, late]);
    cancel();
  }
}

/** True for the message of a failure that two servers of a pair have with each other. */
export function isHandOffFailure(message: string): boolean {
  return HAND_OFF_FAILURE.test(message);
}

function isFailed(answer: Answer): boolean {
  return answerFailure(answer)?.outcome === "failed";
}
