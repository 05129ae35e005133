import type { Clock } from "../../base/clock.ts";
import type { Json, JsonObject } from "../../base/json.ts";
import type { Choice } from "../engine/choice.ts";
import type { CostModel } from "../engine/cost.ts";
import type { Strike } from "../engine/faults.ts";
import type { EngineScheduler } from "../engine/scheduler.ts";
import type { EngineSequence } from "../engine/sequence.ts";
import type { KvSource, PdFabric } from "./fabric.ts";
import type { TokenSource } from "../text/tokens.ts";

/** Time for which the KV of a finished request is kept until it is fetched. */
const LEASE_MS = 30_000;
/** Time for which a server tries to reach one that is not there. */
const UNREACHABLE_MS = 5000;
/** A first contact between two servers: 0.3 to 1 s. */
const HANDSHAKE_MS = 300;

/** The engine and its process, as the connector sees them. */
export interface KvEngine {
  readonly clock: Clock;
  readonly cost: CostModel;
  readonly scheduler: EngineScheduler;
  readonly fabric: PdFabric;
  readonly engineId: string;
  readonly host: string;
  readonly port: number;
  readonly speedup: number;
  /** Fate of a request whose KV cannot be fetched: it fails, or is computed here. */
  readonly loadFailurePolicy: "fail" | "recompute";
  /** Tokens that follow a prompt. */
  sourceOf(prompt: readonly number[]): TokenSource;
  randomHex(length: number): string;
  /** Fault of the next transfer. */
  strike(): Strike | undefined;
  /** Ends the engine. */
  die(): void;
}

/** KV of a finished request, kept until it is fetched or its lease ends. */
interface Kept {
  readonly sequence: EngineSequence;
  readonly prompt: readonly number[];
  readonly expired: AbortController;
}

/** Place of a request's KV on another server. */
interface RemoteKv {
  readonly engineId: string;
  readonly requestId: string;
  readonly blocks: number;
  readonly prefillCachedTokens: number | undefined;
}

interface Fetching {
  readonly sequence: EngineSequence;
  readonly choice: Choice;
  readonly remote: RemoteKv;
  readonly source: KvSource;
}

/**
 * vLLM's NixlConnector: one server computes a prompt and keeps its KV under a lease, another fetches what it lacks.
 * Nothing compares the contents: a wrong or second use gives wrong text, a prompt with more blocks kills the engine.
 */
export class KvConnector implements KvSource {
  readonly stats = { externalQueries: 0, externalHits: 0, transfers: 0, lateNotifications: 0, failed: 0 };
  readonly #engine: KvEngine;
  readonly #kept = new Map<string, Kept>();
  readonly #params = new WeakMap<EngineSequence, JsonObject>();
  readonly #known = new Set<KvSource>();
  #isClosed = false;
  readonly #closeSource: () => void;
  #waiting: Fetching[] = [];
  #nextBlock = 1;
  #linkFreeMs = 0;

  constructor(engine: KvEngine) {
    this.#engine = engine;
    this.#closeSource = engine.fabric.openKv(engine.engineId, this);
  }

  /** Requests that wait for memory to fetch into. */
  get queued(): number {
    return this.#waiting.length;
  }

  /** `kv_transfer_params` of an answer. */
  paramsOf(choice: Choice | undefined): Json {
    const sequence = choice?.sequence;
    return sequence === undefined ? null : this.#params.get(sequence) ?? null;
  }

  /** Takes a request with `kv_transfer_params`; false when it is to be computed here, like any other. */
  submit(sequence: EngineSequence, choice: Choice, params: JsonObject, id: string): boolean {
    if (params["do_remote_decode"] === true) {
      sequence.onFinish = () => this.#keep(sequence, id);
      return false;
    }
    const remote = params["do_remote_prefill"] === true ? remoteKv(params) : undefined;
    if (remote === undefined) return false;
    const source = this.#engine.fabric.findKv(remote.engineId);
    const reached = source !== undefined && Number(params["remote_port"]) === source.port;
    if (!reached) this.#miss(sequence, choice);
    else {
      this.#waiting.push({ sequence, choice, remote, source });
      this.freed();
    }
    return true;
  }

  /** Fetches for those who waited for memory, in order. */
  freed(): void {
    const { scheduler } = this.#engine;
    while (this.#waiting.length > 0) {
      const fetching = this.#waiting[0]!;
      const { sequence } = fetching;
      const gone = sequence.state === "ended";
      if (!gone && !scheduler.allocate(sequence, 0, sequence.promptLength - 1)) return;
      this.#waiting.shift();
      if (!gone) this.#pull(fetching);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#closeSource();
    for (const { expired } of this.#kept.values()) expired.abort();
    this.#kept.clear();
    this.#waiting = [];
  }

  get alive(): boolean {
    return !this.#isClosed;
  }

  get port(): number {
    return this.#engine.port;
  }

  promptOf(requestId: string): readonly number[] | undefined {
    return this.#kept.get(requestId)?.prompt;
  }

  notify(requestId: string): void {
    if (!this.#release(requestId)) this.stats.lateNotifications++;
  }

  #keep(sequence: EngineSequence, id: string): void {
    const { scheduler, clock, speedup, engineId, host, port } = this.#engine;
    const blocks = Math.ceil(sequence.promptLength / scheduler.options.pageSize);
    const requestId = `${id}-0-${this.#engine.randomHex(8)}`;
    const kept: Kept = {
      sequence,
      prompt: sequence.tokens.slice(0, sequence.promptLength),
      expired: new AbortController(),
    };
    this.#kept.set(requestId, kept);
    const first = this.#nextBlock;
    this.#nextBlock += blocks;
    this.#params.set(sequence, {
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_block_ids: [Array.from({ length: blocks }, (_, i) => first + i)],
      remote_engine_id: engineId,
      remote_request_id: requestId,
      remote_host: host,
      remote_port: port,
      tp_size: 1,
      dcp_size: 1,
      pp_size: 1,
      remote_num_tokens: sequence.promptLength,
      remote_blocks_expiry_time: null,
      transfer_mode: "pull",
      remote_prefill_cached_tokens: sequence.cachedTokens,
    });
    clock.sleep(LEASE_MS / speedup, kept.expired.signal).then(() => this.#release(requestId), () => {});
  }

  #release(requestId: string): boolean {
    const kept = this.#kept.get(requestId);
    if (kept === undefined) return false;
    kept.expired.abort();
    this.#kept.delete(requestId);
    this.#engine.scheduler.unpin(kept.sequence);
    return true;
  }

  #pull(fetching: Fetching): void {
    const { sequence, choice, remote, source } = fetching;
    const { scheduler, clock, speedup, cost, fabric } = this.#engine;
    const { pageSize } = scheduler.options;
    const present = sequence.sharedTokens;
    const blocks = Math.ceil(sequence.promptLength / pageSize);
    if (blocks > remote.blocks) return this.#engine.die();
    const pulled = blocks - present / pageSize;
    const handshakeMs = this.#known.has(source) || cost.transferMsPerToken === 0 ? 0 : HANDSHAKE_MS / speedup;
    this.#known.add(source);
    const strike = this.#engine.strike();
    const slowness = strike?.kind === "slow_transfer" ? strike.value ?? 10 : 1;
    const beginMs = Math.max(clock.now(), this.#linkFreeMs);
    this.#linkFreeMs = beginMs + pulled * pageSize * cost.transferMsPerToken * slowness;
    const waitMs = handshakeMs + this.#linkFreeMs - clock.now() + (pulled === 0 ? 0 : cost.transferLatencyMs);
    clock.sleep(waitMs).then(() => {
      if (sequence.state !== "allocated") return source.notify(remote.requestId);
      if (strike?.kind === "kv_failure") return this.#fail(sequence, choice);
      if (!source.alive) {
        if (this.#engine.loadFailurePolicy === "recompute") return scheduler.resume(sequence, present);
        return this.#fail(sequence, choice);
      }
      const prompt = source.promptOf(remote.requestId);
      source.notify(remote.requestId);
      this.stats.externalQueries += sequence.promptLength - present;
      this.stats.externalHits += sequence.promptLength - present;
      this.stats.transfers++;
      fabric.stats.handOffs++;
      fabric.stats.transferredTokens += pulled * pageSize;
      if (pulled > 0) this.#believe(sequence, choice, prompt, present);
      sequence.cachedTokens = remote.prefillCachedTokens ?? sequence.promptLength;
      // Everything but the last token, which is computed here to get the next one.
      scheduler.resume(sequence, sequence.promptLength - 1);
    }, () => {});
  }

  /** Makes its text follow from the KV that was in the blocks, whatever the prompt. */
  #believe(
    sequence: EngineSequence,
    choice: Choice,
    prompt: readonly number[] | undefined,
    present: number,
  ): void {
    const own = sequence.tokens;
    const length = sequence.promptLength;
    const last = own[length - 1]!;
    const foreign = prompt === undefined
      ? [...own.slice(0, present), -1]
      : [...own.slice(0, present), ...prompt.slice(prompt.length - (length - present)).slice(0, -1)];
    const right = foreign.length === length - 1 && foreign.every((id, i) => id === own[i]);
    if (!right) choice.source = this.#engine.sourceOf([...foreign, last]);
  }

  /** Nobody answers at the address of the KV. */
  #miss(sequence: EngineSequence, choice: Choice): void {
    const { clock, speedup, loadFailurePolicy, scheduler } = this.#engine;
    clock.sleep(UNREACHABLE_MS / speedup).then(() => {
      if (sequence.state === "ended") return;
      if (loadFailurePolicy === "recompute") scheduler.submit(sequence);
      else this.#fail(sequence, choice);
    }, () => {});
  }

  #fail(sequence: EngineSequence, choice: Choice): void {
    this.stats.failed++;
    this.#engine.fabric.stats.failedTransfers++;
    choice.fail({ status: 500, message: "Internal server error" });
    this.#engine.scheduler.abort(sequence);
  }
}

function remoteKv(params: JsonObject): RemoteKv | undefined {
  const { remote_engine_id: engineId, remote_request_id: requestId, remote_block_ids: groups } = params;
  if (typeof engineId !== "string" || typeof requestId !== "string" || !Array.isArray(groups)) {
    return undefined;
  }
  const first = groups[0];
  const cached = params["remote_prefill_cached_tokens"];
  return {
    engineId,
    requestId,
    blocks: Array.isArray(first) ? first.length : groups.length,
    prefillCachedTokens: typeof cached === "number" ? cached : undefined,
  };
}
