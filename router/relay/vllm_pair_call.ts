import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import type { Logger } from "../../base/log.ts";
import { type IncomingResponse, TransportError } from "../../base/transport.ts";
import { type HandOff, readHandOff, readIds, untokenised } from "../engines/vllm/vllm_hand_off.ts";
import {
  chatTakesIds,
  isIds,
  keptForDecode,
  prefillBody,
  tokenizeBody,
  type WholeRequest,
  whyAlone,
  withIds,
} from "../engines/vllm/vllm_pd_bodies.ts";
import type { RelayCall, UpstreamCall } from "./upstream_call.ts";
import { applyEdits, readTopLevel, setMembers } from "../wire/splice_json.ts";
import { EngineError } from "../worker/engine_error.ts";
import type { Placement, PrefillSide } from "../worker/placement.ts";

/** Longest answer of a prefill server, and of its tokenizer: a million ids. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

/** One attempt of a request on a pair of vLLM servers. */
export interface VllmPairCallOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly placement: Placement;
  readonly prefill: PrefillSide;
  /** Of both servers; undefined when unknown. */
  readonly version: string | undefined;
  readonly requestId: string;
  /** The client's path, such as `/v1/completions`, and body, both as for a single server. */
  readonly path: string;
  readonly body: Uint8Array;
  /** Limit on the time until the answer begins, over all calls. */
  readonly firstTokenTimeoutMs: number;
  /** Makes a POST with the request's headers to one of the two servers. */
  readonly call: (
    worker: Pick<Placement, "workerId" | "url">,
    path: string,
    body: Uint8Array,
    firstTokenTimeoutMs: number,
  ) => UpstreamCall;
}

/**
 * A request relayed to a pair of vLLM servers: prefilled on one, then answered by the other from the client's own
 * bytes, with the ids that were prefilled and the prefill server's parameters spliced in. What the prefill server
 * refuses is the answer; where it fails, the decode server gets the client's bytes unchanged.
 */
export class VllmPairCall implements RelayCall {
  readonly #options: VllmPairCallOptions;
  readonly #deadlineMs: number;
  #half: "prefill" | "decode" = "prefill";
  #current: UpstreamCall | undefined;
  #stopped: { readonly reason: unknown } | undefined;

  constructor(options: VllmPairCallOptions) {
    this.#options = options;
    this.#deadlineMs = options.clock.now() + options.firstTokenTimeoutMs;
  }

  get response(): IncomingResponse {
    return this.#opened.response;
  }

  get first(): Uint8Array | undefined {
    return this.#opened.first;
  }

  get url(): string {
    const { placement, prefill } = this.#options;
    return this.#half === "prefill" ? prefill.url : placement.url;
  }

  get worker(): string {
    const { placement, prefill } = this.#options;
    const worker = this.#half === "prefill" ? prefill : placement;
    return `Worker ${worker.workerId} (${worker.url})`;
  }

  get half(): "prefill" | "decode" {
    return this.#half;
  }

  async open(): Promise<void> {
    const { placement, body } = this.#options;
    const handOff = await this.#prefill();
    if (handOff === "refused") return;
    this.#half = "decode";
    this.#current?.close();
    if (handOff.kind === "prefilled") {
      const call = await this.#begin(placement, this.#options.path, this.#decodeBody(handOff));
      if (!mayHaveLostTransfer(call.response)) return placement.release("ok", "prefill");
      call.close();
      placement.release("aborted", "prefill");
      this.#note(`${this.worker} answered its hand-off with status ${call.response.status}`, true);
    } else {
      placement.release(handOff.failed ? "failed" : "aborted", "prefill");
      this.#note(handOff.reason, handOff.failed);
    }
    await this.#begin(placement, this.#options.path, body);
  }

  read(): Promise<Uint8Array | undefined> {
    return this.#opened.read();
  }

  async stop(reason: unknown): Promise<void> {
    this.#stopped ??= { reason };
    await this.#current?.stop(reason);
  }

  close(): void {
    this.#stopped ??= { reason: new Error("The answer is no longer needed") };
    this.#current?.close();
  }

  get #opened(): UpstreamCall {
    if (this.#current === undefined) throw new Error("Cannot read the answer: it has not arrived");
    return this.#current;
  }

  /** Has the prompt prefilled. `refused`: the prefill server's own answer is the one for the client. */
  async #prefill(): Promise<HandOff | "refused"> {
    const { path, body, version } = this.#options;
    const whole = wholeRequest(path, body);
    if (whole === undefined) return alone("it is no generation");
    const reason = whyAlone(whole) ??
      (path === "/v1/chat/completions" && !chatTakesIds(version)
        ? "chats need vLLM 0.28 or newer for a hand-off"
        : undefined);
    if (reason !== undefined) return alone(reason);
    const { prefill } = this.#options;
    try {
      let ids: readonly number[];
      if (isIds(whole.body.prompt)) ids = whole.body.prompt;
      else {
        const text = await this.#ask("/tokenize", tokenizeBody(whole));
        // A server without it has not refused the request.
        if (text === undefined && this.response.status === 404) return untokenised(prefill.url);
        if (text === undefined) return "refused";
        ids = readIds(text, prefill.url);
      }
      const text = await this.#ask("/v1/completions", keptForDecode(prefillBody(whole.body, ids)));
      return text === undefined ? "refused" : readHandOff(text, ids, prefill.url);
    } catch (error) {
      if (this.#stopped !== undefined || !mayGoOn(error)) throw error;
      return { kind: "alone", reason: `${this.worker}: ${messageOf(error)}`, failed: true };
    }
  }

  /** A whole answer of the prefill server; undefined when it is a refusal, which stays the current call. */
  async #ask(path: string, body: JsonObject): Promise<string | undefined> {
    const { prefill } = this.#options;
    const call = await this.#begin(prefill, path, new TextEncoder().encode(JSON.stringify(body)));
    const { status } = call.response;
    if (status >= 400 && status < 500 || status === 503) return undefined;
    if (status !== 200) throw brokenPrefill(prefill.url, `answered ${path} with status ${status}`, status);
    const decoder = new TextDecoder();
    let text = "";
    for (let chunk = call.first; chunk !== undefined; chunk = await call.read()) {
      text += decoder.decode(chunk, { stream: true });
      if (text.length > MAX_ANSWER_BYTES) {
        throw brokenPrefill(prefill.url, "answered with more than a prefill has to say", status);
      }
    }
    return text;
  }

  /** The client's bytes with what the decode server needs to know of the prefill. */
  #decodeBody({ ids, transfer }: Extract<HandOff, { kind: "prefilled" }>): Uint8Array {
    const { path, body } = this.#options;
    const top = readTopLevel(body, ["prompt", "kv_transfer_params"]);
    const json = transfer.take();
    return applyEdits(
      body,
      setMembers(
        top,
        path === "/v1/completions"
          ? { prompt: JSON.stringify(ids), kv_transfer_params: json }
          : { kv_transfer_params: withIds(json, ids) },
      ),
    );
  }

  async #begin(
    worker: Pick<Placement, "workerId" | "url">,
    path: string,
    body: Uint8Array,
  ): Promise<UpstreamCall> {
    if (this.#stopped !== undefined) throw this.#stopped.reason;
    const leftMs = Math.max(1, this.#deadlineMs - this.#options.clock.now());
    const call = this.#options.call(worker, path, body, leftMs);
    this.#current = call;
    await call.open();
    return call;
  }

  #note(reason: string, failed: boolean): void {
    const { log, requestId, placement } = this.#options;
    log[failed ? "warning" : "debug"]("{worker} reads the prompt of {request} by itself: {reason}", {
      worker: placement.workerId,
      request: requestId,
      reason,
    });
  }
}

function alone(reason: string): HandOff {
  return { kind: "alone", reason, failed: false };
}

/** The request, if it is one that both servers of a pair can share in; its numbers are only looked at, never sent on. */
function wholeRequest(path: string, bytes: Uint8Array): WholeRequest | undefined {
  if (path !== "/v1/completions" && path !== "/v1/chat/completions") return undefined;
  try {
    const body: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return isJsonObject(body) ? { path, body } : undefined;
  } catch {
    // The decode server will say what is wrong with it.
    return undefined;
  }
}

/** True for failures of the prefill server that leave time for the decode server to do without. */
function mayGoOn(error: unknown): boolean {
  return error instanceof TransportError || error instanceof EngineError && error.code !== "worker_timeout";
}

/** True for an answer with which a decode server may say that it could not fetch a cache: it never says so plainly. */
function mayHaveLostTransfer({ status }: IncomingResponse): boolean {
  return status >= 500 && status !== 503;
}

function brokenPrefill(workerUrl: string, what: string, workerStatus: number): EngineError {
  return new EngineError(`Worker ${workerUrl} ${what}`, {
    code: "worker_failed",
    status: 502,
    workerUrl,
    workerStatus,
    retryable: true,
  });
}
