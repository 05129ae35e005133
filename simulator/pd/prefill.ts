import type { Clock } from "../../base/clock.ts";
import type { Choice } from "../engine/choice.ts";
import type { CostModel } from "../engine/cost.ts";
import type { Strike } from "../engine/faults.ts";
import type { EngineScheduler } from "../engine/scheduler.ts";
import type { EngineSequence } from "../engine/sequence.ts";
import { SGLANG } from "../engine/sglang_version.ts";
import type { DecodeLeg, PdFabric, PrefillPort } from "./fabric.ts";
import {
  type Bootstrap,
  FAKE_BOOTSTRAP_HOST,
  LEG_OVER,
  type PdQueues,
  type PdRole,
  roomText,
} from "./role.ts";

/** The engine and its process, as the roles of a pair see them. */
export interface PdEngine {
  readonly clock: Clock;
  readonly cost: CostModel;
  readonly scheduler: EngineScheduler;
  readonly fabric: PdFabric;
  readonly host: string;
  readonly port: number;
  readonly version: number;
  /** Time that the other half may take to come, in ms of real servers. */
  readonly bootstrapTimeoutMs: number;
  /** Time that the KV may take to come, in ms of real servers. */
  readonly waitingTimeoutMs: number;
  readonly reservedDecodeTokens: number;
  readonly decodeRadixCache: boolean;
  readonly speedup: number;
  /** Fault of the next transfer. */
  strike(): Strike | undefined;
  /** Ends the process. */
  die(): void;
}

interface Leg {
  readonly key: string;
  readonly room: number | undefined;
  readonly rid: string;
  readonly sequence: EngineSequence;
  readonly choice: Choice;
  readonly cancelled: AbortController;
  state: "bootstrapping" | "computing" | "sending" | "ended";
  decode: DecodeLeg | undefined;
  /** The decode half has given up since. */
  abandoned: boolean;
}

/** Prefill: waits for the decode half, computes the prompt and one token, sends the KV, then answers. */
export class PrefillRole implements PdRole, PrefillPort {
  readonly role = "prefill";
  readonly #engine: PdEngine;
  readonly #legs = new Map<EngineSequence, Leg>();
  /** Requests that wait for their decode half, by key. */
  readonly #expecting = new Map<string, Leg>();
  /** Decode halves that wait for their request, by key. */
  readonly #early = new Map<string, DecodeLeg>();
  /** All decode halves that count on this server, with their requests. */
  readonly #decodes = new Map<DecodeLeg, Leg | undefined>();
  #closed = false;
  readonly #closeRegistry: () => void;
  #linkFreeMs = 0;
  #bootstrapFailed = 0;
  #transferFailed = 0;

  constructor(engine: PdEngine) {
    this.#engine = engine;
    this.#closeRegistry = engine.fabric.open(engine.host, engine.port, this);
  }

  get queues(): PdQueues {
    let bootstrap = 0;
    let inflight = 0;
    for (const leg of this.#legs.values()) {
      if (leg.state === "bootstrapping") bootstrap++;
      else if (leg.state === "sending") inflight++;
    }
    return {
      bootstrap,
      inflight,
      prealloc: 0,
      transfer: 0,
      bootstrapFailed: this.#bootstrapFailed,
      transferFailed: this.#transferFailed,
    };
  }

  submit(sequence: EngineSequence, choice: Choice, bootstrap: Bootstrap): void {
    const fake = bootstrap.host === FAKE_BOOTSTRAP_HOST;
    const room = bootstrap.session === true ? undefined : bootstrap.room;
    const key = `${roomText(room)}/${bootstrap.sample}`;
    const leg: Leg = {
      key,
      room,
      rid: bootstrap.rid,
      sequence,
      choice,
      cancelled: new AbortController(),
      state: "bootstrapping",
      decode: undefined,
      abandoned: false,
    };
    this.#legs.set(sequence, leg);
    if (fake) return this.#compute(leg);
    const early = this.#early.get(key);
    if (early === undefined) this.#expect(leg);
    else {
      this.#early.delete(key);
      this.#meet(leg, early);
    }
  }

  abort(sequence: EngineSequence): void {
    const leg = this.#legs.get(sequence);
    if (leg === undefined) return;
    if (leg.state === "bootstrapping") return this.#fail(leg, "bootstrap", "Aborted by AbortReq.");
    if (leg.state === "sending") {
      this.#tell(leg);
      return this.#fail(leg, "transfer", "Aborted by AbortReq.");
    }
    const { version, scheduler } = this.#engine;
    if (sequence.state === "running" && version < SGLANG.abortsPrefill) return;
    if (version >= SGLANG.legsNotify) this.#tell(leg);
    this.#end(leg);
    scheduler.abort(sequence);
  }

  freed(): void {}

  close(): void {
    this.#closed = true;
    this.#closeRegistry();
    for (const leg of this.#legs.values()) {
      leg.state = "ended";
      leg.cancelled.abort(LEG_OVER);
    }
    this.#legs.clear();
    this.#expecting.clear();
    this.#early.clear();
    for (const decode of this.#decodes.keys()) decode.lose();
    this.#decodes.clear();
  }

  admit(decode: DecodeLeg): void {
    if (this.#closed) return decode.lose();
    this.#decodes.set(decode, undefined);
    const leg = this.#expecting.get(decode.key);
    if (leg === undefined) this.#early.set(decode.key, decode);
    else this.#meet(leg, decode);
  }

  leave(decode: DecodeLeg): void {
    if (this.#early.get(decode.key) === decode) this.#early.delete(decode.key);
    const leg = this.#decodes.get(decode);
    if (leg !== undefined) leg.abandoned = true;
    this.#decodes.delete(decode);
  }

  /** Waits for the decode half. */
  #expect(leg: Leg): void {
    this.#expecting.set(leg.key, leg);
    const { clock, bootstrapTimeoutMs, speedup } = this.#engine;
    clock.sleep(bootstrapTimeoutMs / speedup, leg.cancelled.signal).then(() => {
      if (leg.state !== "bootstrapping") return;
      const seconds = (bootstrapTimeoutMs / 1000).toFixed(1);
      this.#fail(
        leg,
        "bootstrap",
        `Request ${roomText(leg.room)} timed out after ${seconds}s in KVPoll.Bootstrapping`,
      );
    }, () => {});
  }

  #meet(leg: Leg, decode: DecodeLeg): void {
    leg.decode = decode;
    this.#decodes.set(decode, leg);
    this.#expecting.delete(leg.key);
    leg.cancelled.abort(LEG_OVER);
    this.#compute(leg);
  }

  #compute(leg: Leg): void {
    leg.state = "computing";
    leg.sequence.handOff = (token) => this.#send(leg, token);
    this.#engine.scheduler.submit(leg.sequence);
  }

  #send(leg: Leg, token: number): void {
    leg.state = "sending";
    const { clock } = this.#engine;
    const strike = leg.decode === undefined ? undefined : this.#engine.strike();
    const tokens = leg.decode === undefined ? 0 : leg.sequence.promptLength - leg.decode.presentTokens;
    const ms = tokens <= 0 ? 0 : this.#transferMs(leg, tokens) *
      (strike?.kind === "slow_transfer" ? strike.value ?? 10 : 1);
    clock.sleep(ms).then(() => {
      if (leg.state !== "sending") return;
      const { decode } = leg;
      if (strike?.kind === "kv_failure" || decode?.alive === false) {
        this.#tell(leg);
        const { host, port } = this.#engine;
        return this.#fail(
          leg,
          "transfer",
          `Failed to send kv chunk of ${roomText(leg.room)} to ${host}:${port}`,
        );
      }
      if (leg.abandoned && this.#engine.version >= SGLANG.legsNotify) {
        return this.#fail(leg, "transfer", "Aborted by AbortReq.");
      }
      const { scheduler, fabric } = this.#engine;
      this.#end(leg);
      scheduler.release(leg.sequence, false);
      leg.choice.handedOff(token);
      if (decode === undefined || leg.abandoned) return;
      fabric.stats.handOffs++;
      fabric.stats.transferredTokens += Math.max(0, tokens);
      decode.receive({
        prompt: leg.sequence.tokens,
        firstToken: token,
        cachedTokens: leg.sequence.cachedTokens,
      });
    }, () => {});
  }

  /**
   * Time from the end of the computation to the arrival of the last KV. Chunks travel as they are computed, from 0.5.15
   * on the cached prefix before them; one server's transfers share its link.
   */
  #transferMs(leg: Leg, tokens: number): number {
    const { cost, version, clock } = this.#engine;
    const { sequence } = leg;
    const nowMs = clock.now();
    const early = version >= SGLANG.sendsPrefixEarly && sequence.cachedTokens > 0;
    const firstMs = (early ? sequence.scheduledMs : sequence.firstChunkMs) ?? nowMs;
    const perToken = cost.transferMsPerToken;
    const ahead = perToken === 0
      ? 0
      : Math.min(tokens - Math.min(tokens, sequence.lastChunk), (nowMs - firstMs) / perToken);
    const beginMs = Math.max(nowMs, this.#linkFreeMs);
    this.#linkFreeMs = beginMs + (tokens - Math.max(0, ahead)) * perToken;
    return this.#linkFreeMs - nowMs + cost.transferLatencyMs;
  }

  /** Lets the decode half know that nothing will come. */
  #tell(leg: Leg): void {
    const { decode } = leg;
    if (decode === undefined || leg.abandoned) return;
    this.#engine.fabric.stats.failedTransfers++;
    decode.fail("Failed to get kvcache from prefill instance, it might be dead");
  }

  #fail(leg: Leg, stage: "bootstrap" | "transfer", reason: string): void {
    if (stage === "bootstrap") this.#bootstrapFailed++;
    else this.#transferFailed++;
    this.#end(leg);
    const room = roomText(leg.room);
    leg.choice.fail({
      status: 500,
      message: `Prefill ${stage} failed for request rank=0 req.rid='${leg.rid}' req.bootstrap_room=${room} ` +
        `with exception KVTransferError(bootstrap_room=${room}): ${reason}`,
    });
    this.#engine.scheduler.release(leg.sequence, true);
  }

  #end(leg: Leg): void {
    leg.state = "ended";
    leg.cancelled.abort(LEG_OVER);
    this.#legs.delete(leg.sequence);
    if (this.#expecting.get(leg.key) === leg) this.#expecting.delete(leg.key);
    if (leg.decode !== undefined) this.#decodes.delete(leg.decode);
  }
}
