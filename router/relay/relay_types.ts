import type { StopSignal } from "../../base/stop_signal.ts";
import type { JsonObject } from "../../base/json.ts";
import type { AnswerRewrite } from "./answer_rewrite.ts";
import type { LiveRid } from "./live_rids.ts";
import type { FallbackReason } from "../served/fallbacks.ts";
import type { ServedModel } from "../served/served_model.ts";

/** A client's own credentials, which pass through to workers that the router has no key for. */
export interface ClientCredentials {
  readonly authorization: string | undefined;
}

/** A client's request for an engine model: the body is opaque bytes. */
export interface RelayRequest {
  readonly method: "GET" | "POST";
  /** Path on the worker, such as `/v1/chat/completions`. */
  readonly path: string;
  /** With its question mark; it goes to the worker as it came, and changes nothing of what the path is. */
  readonly query?: string | undefined;
  /** The client's headers, lower case; hop-by-hop ones, host, length and our own authorization are dropped. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** The same, where it was parsed: then it need not be scanned for what it does not have. */
  readonly parsed?: JsonObject | undefined;
  /** Present where the workers know the client rather than the router. */
  readonly credentials?: ClientCredentials | undefined;
  /** True where another model than the one that the body names is asked: its name is written into the body. */
  readonly renames?: boolean | undefined;
  /** Looks at the answer on its way, and may change it; one that is no stream is then held until it is whole. */
  readonly rewrite?: AnswerRewrite | undefined;
  /** The client, by a name that only comparing makes sense of: its ids are its own. */
  readonly owner?: string | undefined;
}

/** An answer for the client. */
export interface RelayAnswer {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /**
   * All of it; or the bytes while they arrive, to be read or left (`return`) by the only stream that there is between
   * the worker and the client; undefined for none.
   */
  readonly body: Uint8Array<ArrayBuffer> | AnswerBytes | undefined;
  /** Present where all attempts have failed, and the client has had nothing yet: another model may be asked instead. */
  readonly gaveUp?: FallbackReason | undefined;
}

/** Bytes of an answer while they arrive. */
export interface AnswerBytes extends AsyncIterableIterator<Uint8Array, void, void> {
  /** As `next().then(take, fail)`, with fewer promises: there is one for every chunk. */
  pass(
    take: (read: IteratorResult<Uint8Array, void>) => void,
    fail: (error: unknown) => void,
  ): Promise<void>;
  /** Leaves the answer: settles when the worker was told. */
  return(): Promise<IteratorResult<Uint8Array, void>>;
}

/** Relays to a worker of the model and back, byte for byte. */
export interface Relay {
  /**
   * The worker's answer as it is (its 4xx, too); 502 naming the worker when it broke, after retries elsewhere
   * while nothing was sent to the client. A stream that breaks later ends with one error event and no `[DONE]`.
   * `signal`: the client has gone; the worker is told in the order its version needs.
   */
  relay(model: ServedModel, request: RelayRequest, signal: StopSignal): Promise<RelayAnswer>;
  /** The ids under which SGLang knows the live requests that a client knows by exactly this `rid`, of these owners. */
  liveRids(rid: string, owned: (owner: string | undefined) => boolean): readonly LiveRid[];
}

/** A relayed request of which an attempt failed. */
export interface RetriedRequest {
  readonly path: string;
  /** The kind of server that failed. */
  readonly side: "regular" | "prefill" | "decode";
}

/** Is told what the relay tries again. */
export interface RelayRetries {
  /** One more attempt is made, after a pause. */
  retried(request: RetriedRequest, pauseMs: number): void;
  /** One more attempt would have been made, had there been one left, or another worker. */
  exhausted(request: RetriedRequest): void;
}
