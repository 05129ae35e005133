import type { Choice } from "../engine/choice.ts";
import type { EngineSequence } from "../engine/sequence.ts";
import { SGLANG } from "../engine/sglang_version.ts";
import type { DecodeLeg, KvHandOff, PrefillPort } from "./fabric.ts";
import type { PdEngine } from "./prefill.ts";
import {
  type Bootstrap,
  BOOTSTRAP_PORT,
  FAKE_BOOTSTRAP_HOST,
  LEG_OVER,
  type PdQueues,
  type PdRole,
  roomText,
} from "./role.ts";
import type { TokenSource } from "../text/tokens.ts";

/** Two missed heartbeats five seconds apart: 5 to 10 s; as long as recorded. */
const HEARTBEAT_MS = 6000;
/** Time of a failed handshake beyond the waiting time. */
const HANDSHAKE_MS = 2000;
/** Time until 0.5.3 dies of a request with an address where nothing listens. */
const OLD_DEATH_MS = 200;

class Leg implements DecodeLeg {
  readonly key: string;
  readonly room: number;
  readonly rid: string;
  readonly sequence: EngineSequence;
  readonly choice: Choice;
  readonly port: PrefillPort | undefined;
  readonly address: string;
  /** The KV comes, but the request is never completed. */
  readonly stuck: boolean;
  readonly #role: DecodeRole;
  cancelled = new AbortController();
  state: "handshake" | "preallocating" | "waiting" | "decoding" | "ended" = "handshake";

  constructor(
    role: DecodeRole,
    fields: Pick<Leg, "room" | "rid" | "sequence" | "choice" | "port" | "address" | "stuck">,
    key: string,
  ) {
    this.#role = role;
    this.key = key;
    this.room = fields.room;
    this.rid = fields.rid;
    this.sequence = fields.sequence;
    this.choice = fields.choice;
    this.port = fields.port;
    this.address = fields.address;
    this.stuck = fields.stuck;
  }

  get alive(): boolean {
    return this.#role.alive;
  }

  get presentTokens(): number {
    return this.sequence.sharedTokens;
  }

  receive(handOff: KvHandOff): void {
    this.#role.receive(this, handOff);
  }

  fail(reason: string): void {
    this.#role.fail(this, "transfer", reason);
  }

  lose(): void {
    this.#role.lose(this);
  }
}

/** Prefill of the server's own health checks: nothing is sent, and the first token is 0. */
const FAKE_PREFILL: PrefillPort = {
  admit: (leg) => leg.receive({ prompt: undefined, firstToken: 0, cachedTokens: 0 }),
  leave: () => {},
};

/** Decode: takes memory in order of arrival, waits for the KV, then goes on behind prefill's token. */
export class DecodeRole implements PdRole {
  readonly role = "decode";
  alive = true;
  readonly #engine: PdEngine;
  /** Says how a prompt goes on. */
  readonly #sourceOf: (choice: Choice, prompt: readonly number[]) => TokenSource;
  readonly #legs = new Map<EngineSequence, Leg>();
  #prealloc: Leg[] = [];
  #transferFailed = 0;
  #handshakeFailed = 0;

  constructor(engine: PdEngine, sourceOf: (choice: Choice, prompt: readonly number[]) => TokenSource) {
    this.#engine = engine;
    this.#sourceOf = sourceOf;
  }

  get queues(): PdQueues {
    let transfer = 0;
    for (const leg of this.#legs.values()) if (leg.state === "waiting") transfer++;
    return {
      bootstrap: 0,
      inflight: 0,
      prealloc: this.#legs.size - transfer,
      transfer,
      bootstrapFailed: this.#handshakeFailed,
      transferFailed: this.#transferFailed,
    };
  }

  submit(sequence: EngineSequence, choice: Choice, bootstrap: Bootstrap): void {
    const { version, fabric, clock, speedup, waitingTimeoutMs } = this.#engine;
    if (bootstrap.host === undefined) return this.#engine.die();
    if (!this.#engine.decodeRadixCache) sequence.inserts = false;
    const room = bootstrap.room ?? 0;
    const registry = bootstrap.port ?? BOOTSTRAP_PORT;
    const fake = bootstrap.host === FAKE_BOOTSTRAP_HOST;
    const port = fake ? FAKE_PREFILL : fabric.find(bootstrap.host, registry);
    const key = `${roomText(room)}/${bootstrap.sample}`;
    const stuck = !fake && (bootstrap.samples > 1 || (room === 0 && version >= SGLANG.errorEvents));
    const address = `${bootstrap.host}:${registry}`;
    const leg = new Leg(this, { room, rid: bootstrap.rid, sequence, choice, port, address, stuck }, key);
    this.#legs.set(sequence, leg);
    if (!fake) fabric.useRoom(bootstrap.host, registry, key);
    if (port !== undefined) {
      leg.state = "preallocating";
      this.#prealloc.push(leg);
      return this.freed();
    }
    if (version < SGLANG.errorEvents) {
      clock.sleep(OLD_DEATH_MS / speedup, leg.cancelled.signal).then(() => this.#engine.die(), () => {});
      return;
    }
    this.#after(leg, waitingTimeoutMs + HANDSHAKE_MS, () => {
      this.fail(leg, "handshake", "Aborted by AbortReq.");
    });
  }

  abort(sequence: EngineSequence): void {
    const leg = this.#legs.get(sequence);
    if (leg === undefined) return this.#engine.scheduler.abort(sequence);
    this.fail(leg, leg.state === "waiting" ? "transfer" : "handshake", "Aborted by AbortReq.");
  }

  /** Takes in those who waited for memory, first come, first served. */
  freed(): void {
    const { scheduler, reservedDecodeTokens, waitingTimeoutMs } = this.#engine;
    while (this.alive && this.#prealloc.length > 0) {
      const leg = this.#prealloc[0]!;
      if (!scheduler.allocate(leg.sequence, reservedDecodeTokens)) return;
      this.#prealloc.shift();
      leg.state = "waiting";
      this.#after(leg, waitingTimeoutMs, () => {
        const seconds = (waitingTimeoutMs / 1000).toFixed(1);
        this.fail(
          leg,
          "transfer",
          `Request ${roomText(leg.room)} timed out after ${seconds}s in KVPoll.WaitingForInput`,
        );
      });
      leg.port?.admit(leg);
    }
  }

  close(): void {
    this.alive = false;
    for (const leg of this.#legs.values()) leg.cancelled.abort(LEG_OVER);
    this.#legs.clear();
    this.#prealloc = [];
  }

  receive(leg: Leg, handOff: KvHandOff): void {
    if (leg.state !== "waiting" || !this.alive) return;
    leg.cancelled.abort(LEG_OVER);
    if (leg.stuck) return;
    const { choice, sequence } = leg;
    leg.state = "decoding";
    this.#legs.delete(sequence);
    sequence.cachedTokens = handOff.cachedTokens;
    this.#engine.scheduler.stats.cachedTokens += handOff.cachedTokens;
    // Its text follows from the KV, whatever prompt came with this half.
    const { prompt } = handOff;
    if (prompt !== undefined && !sameIds(prompt, sequence.tokens)) {
      choice.source = this.#sourceOf(choice, prompt);
    }
    if (choice.options.maxTokens === 0) choice.sample();
    else choice.source.accept(handOff.firstToken);
    this.#engine.scheduler.adopt(sequence, choice.options.maxTokens === 0 ? undefined : handOff.firstToken);
  }

  /** The prefill server is gone; its heartbeat is missed twice before anything happens. */
  lose(leg: Leg): void {
    if (leg.state !== "waiting") return;
    leg.cancelled.abort(LEG_OVER);
    leg.cancelled = new AbortController();
    const verb = this.#engine.version < SGLANG.legsNotify ? "Losing" : "Lost";
    this.#after(leg, HEARTBEAT_MS, () => {
      this.fail(leg, "transfer", `${verb} connection with prefill instance (bootstrap_addr: ${leg.address})`);
    });
  }

  fail(leg: Leg, stage: "handshake" | "transfer", reason: string): void {
    if (leg.state === "ended" || leg.state === "decoding") return;
    if (stage === "handshake") this.#handshakeFailed++;
    else this.#transferFailed++;
    leg.state = "ended";
    leg.cancelled.abort(LEG_OVER);
    this.#legs.delete(leg.sequence);
    this.#prealloc = this.#prealloc.filter((other) => other !== leg);
    leg.port?.leave(leg);
    const room = roomText(leg.room);
    leg.choice.fail({
      status: 500,
      message:
        `Decode ${stage} failed for request rank=0 decode_req.req.rid='${leg.rid}' decode_req.req.bootstrap_room=${room} ` +
        `with exception KVTransferError(bootstrap_room=${room}): ${reason}`,
    });
    this.#engine.scheduler.release(leg.sequence, true);
  }

  #after(leg: Leg, ms: number, act: () => void): void {
    const { clock, speedup } = this.#engine;
    clock.sleep(ms / speedup, leg.cancelled.signal).then(act, () => {});
  }
}

function sameIds(a: readonly number[], b: readonly number[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
