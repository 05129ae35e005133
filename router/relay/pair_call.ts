import { joined } from "../../base/bytes.ts";
import type { Clock } from "../../base/clock.ts";
import type { IncomingResponse } from "../../base/transport.ts";
import { failureOfAnswer, failureOfError } from "./failures.ts";
import type { RelayCall, UpstreamCall } from "./upstream_call.ts";
import type { Placement } from "../worker/placement.ts";

/** How long a prefill server that has done its work may take to say so. */
const PREFILL_TRAILER_MS = 1_000;
/** How long a prefill that must not be aborted is waited for, before it is all the same. */
const PREFILL_FINISH_MS = 10_000;

/** Longest prefill answer that is kept. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024;

/** Both halves of one attempt. */
export interface PairCallOptions {
  readonly clock: Clock;
  readonly placement: Placement;
  /** Such as `/generate`. */
  readonly path: string;
  readonly prefill: UpstreamCall;
  readonly decode: UpstreamCall;
  /** True where a prefill that is aborted while it waits costs its server a buffer for ever (SGLang before 0.5.10). */
  readonly finishPrefill: boolean;
  /** True when prefill's answer will be asked for. */
  readonly keepPrefill: boolean;
}

/**
 * One attempt on both servers of a pair at once. Decode's answer is the answer, and prefill's is read beside it and
 * gates nothing; but when prefill fails before decode has begun, its answer or error is the attempt's, at once.
 * Whichever half fails, the other is aborted.
 */
export class PairCall implements RelayCall {
  readonly #options: PairCallOptions;
  /** The half whose answer is passed on. */
  #answering: UpstreamCall;
  #prefillError: { readonly error: unknown } | undefined;
  #decodeBegan = false;
  #prefillEnded = false;
  #prefillAnswer: Uint8Array | undefined;
  #prefilled: Promise<void> = Promise.resolve();

  constructor(options: PairCallOptions) {
    this.#options = options;
    this.#answering = options.decode;
  }

  get response(): IncomingResponse {
    return this.#answering.response;
  }

  get first(): Uint8Array | undefined {
    return this.#answering.first;
  }

  get url(): string {
    return this.#answering.url;
  }

  get worker(): string {
    return this.#answering.worker;
  }

  get half(): "prefill" | "decode" {
    return this.#answering === this.#options.prefill ? "prefill" : "decode";
  }

  async open(): Promise<void> {
    const { decode, path } = this.#options;
    this.#prefilled = this.#readPrefill();
    try {
      await decode.open();
    } catch (error) {
      if (this.half === "decode") {
        await this.#stopPrefill(error);
        throw error;
      }
    }
    if (this.half === "prefill") {
      if (this.#prefillError !== undefined) throw this.#prefillError.error;
      return;
    }
    this.#decodeBegan = true;
    if (decode.response.status < 400 && failureOfAnswer(decode, path) === undefined) return;
    await this.#stopPrefill(new Error("The decode server refused the request"));
  }

  async read(): Promise<Uint8Array | undefined> {
    const chunk = await this.#answering.read();
    if (chunk === undefined && this.half === "decode") void this.#endPrefill();
    return chunk;
  }

  /** Prefill's whole answer, once it has ended well; undefined when it has not. For a pair that keeps it. */
  async prefillAnswer(): Promise<Uint8Array | undefined> {
    await this.#prefilled;
    return this.#prefillAnswer;
  }

  async stop(reason: unknown): Promise<void> {
    const { prefill, decode, finishPrefill } = this.#options;
    if (finishPrefill) await this.#within(PREFILL_FINISH_MS);
    this.#prefillEnded = true;
    await Promise.all([prefill.stop(reason), decode.stop(reason)]);
  }

  close(): void {
    this.#options.decode.close();
    if (this.half === "prefill") this.#options.prefill.close();
    else void this.#stopPrefill(new Error("The answer is no longer needed"));
  }

  /** Reads the prefill half to its end. Never rejects. */
  async #readPrefill(): Promise<void> {
    const { prefill, placement, path } = this.#options;
    try {
      await prefill.open();
      const failure = failureOfAnswer(prefill, path);
      if (failure !== undefined || prefill.response.status >= 400) {
        return this.#failPrefill(failure?.outcome === "failed", undefined);
      }
      await this.#drainPrefill();
      this.#prefillEnded = true;
      placement.release("ok", "prefill");
    } catch (error) {
      if (this.#prefillEnded) return;
      this.#failPrefill(failureOfError(prefill, error).outcome === "failed", { error });
    }
  }

  async #drainPrefill(): Promise<void> {
    const { prefill, keepPrefill } = this.#options;
    const kept: Uint8Array[] = [];
    let length = 0;
    for (let chunk = prefill.first; chunk !== undefined; chunk = await prefill.read()) {
      if (!keepPrefill) continue;
      length += chunk.length;
      if (length > MAX_KEPT_BYTES) {
        throw new Error(`the prefill server's answer is longer than ${MAX_KEPT_BYTES} bytes`);
      }
      kept.push(chunk);
    }
    if (keepPrefill) this.#prefillAnswer = joined(kept);
  }

  #failPrefill(failed: boolean, error: { readonly error: unknown } | undefined): void {
    const { prefill, decode, placement } = this.#options;
    this.#prefillEnded = true;
    if (this.#decodeBegan) {
      // Decode has all it needs: this harms nothing but the server's own record.
      if (failed) placement.release("failed", "prefill");
      prefill.close();
      return;
    }
    this.#answering = prefill;
    this.#prefillError = error;
    void decode.stop(new Error("The prefill server has failed"));
  }

  /** Decode's answer is over: what prefill still has to say is short. */
  async #endPrefill(): Promise<void> {
    await this.#within(PREFILL_TRAILER_MS);
    await this.#stopPrefill(new Error("The answer is over"));
  }

  async #stopPrefill(reason: unknown): Promise<void> {
    if (this.#options.finishPrefill) await this.#within(PREFILL_FINISH_MS);
    if (this.#prefillEnded) return;
    this.#prefillEnded = true;
    await this.#options.prefill.stop(reason);
  }

  async #within(limitMs: number): Promise<void> {
    if (this.#prefillEnded) return;
    const timer = new AbortController();
    const late = this.#options.clock.sleep(limitMs, timer.signal).catch(() => {});
    await Promise.race([this.#prefilled, late]);
    timer.abort();
  }
}
