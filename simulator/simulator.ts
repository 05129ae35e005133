import { Random } from "../base/random.ts";
import { type OutgoingRequest, TransportError } from "../base/transport.ts";
import { type Fault, Faults, type Strike } from "./engine/faults.ts";
import { versionNumber } from "./engine/sglang_version.ts";
import { ANY_HOST } from "./pd/fabric.ts";
import { BOOTSTRAP_PORT } from "./pd/role.ts";
import { connect, type ConnectionServer, type ServedResponse } from "./server/connection.ts";
import { faultyBytes, faultyEvents, slowness } from "./server/faulty_body.ts";
import type { Protocol } from "./server/protocol.ts";
import { emptyReply, headersOf, Refusal, type Reply, type ServedRequest } from "./server/reply.ts";
import type { Simulator, SimulatorOptions } from "./server/simulator_options.ts";
import { Utf8Arena } from "./server/utf8.ts";
import { registryReply } from "./sglang/registry.ts";
import { sglangProtocol } from "./sglang/sglang.ts";
import { vllmProtocol } from "./vllm/vllm.ts";

const utf8 = new Utf8Arena();

/** Makes a simulated server. It works in memory through `handle`, or on a port through `startSimulator`. */
export function createSimulator(options: SimulatorOptions): Simulator {
  return new SimulatedServer(options);
}

class SimulatedServer implements Simulator {
  readonly #options: SimulatorOptions;
  readonly #faults: Faults;
  readonly #protocol: Protocol;
  readonly #server: ConnectionServer;
  #life: "alive" | "dying" | "gone" = "alive";

  constructor(options: SimulatorOptions) {
    this.#options = options;
    const random = new Random(options.seed).stream(`simulator/${options.models[0] ?? ""}/faults`);
    this.#faults = new Faults(random, options.faultRate);
    this.#server = { answer: (request, served) => this.#answer(request, served), connections: new Set() };
    const hooks = { die: () => this.#die(), strike: () => this.#faults.nextTransfer() };
    this.#protocol = options.engine === "vllm"
      ? vllmProtocol(options, hooks)
      : sglangProtocol(options, hooks);
  }

  get running(): number {
    return this.#protocol.backend.load;
  }

  get stats(): Simulator["stats"] {
    return this.#protocol.backend.scheduler.stats;
  }

  handle: Simulator["handle"] = (request, signal) => connect(request, signal, this.#server);

  inject(fault: Fault): void {
    this.#faults.inject(fault);
  }

  clearFaults(): void {
    this.#faults.clear();
  }

  freeze(): () => void {
    return this.#protocol.backend.scheduler.freeze();
  }

  crash(): void {
    this.close();
    for (const reset of this.#server.connections) reset();
  }

  close(): void {
    this.#life = "gone";
    this.#protocol.backend.kill();
  }

  /** A fatal request: the engine stops for good, the HTTP process follows. Nobody gets an answer any more. */
  #die(): Promise<never> {
    if (this.#life === "alive") {
      this.#life = "dying";
      this.#protocol.backend.scheduler.kill();
      this.#protocol.dead?.();
      const { clock, speedup = 1 } = this.#options;
      clock.sleep(this.#protocol.deathMs / speedup).then(() => this.crash(), () => {});
    }
    return new Promise(() => {});
  }

  async #answer(request: OutgoingRequest, served: ServedRequest): Promise<ServedResponse> {
    if (this.#life === "gone") throw new TransportError("connect_failed", request.url);
    const { clock } = this.#options;
    const beganMs = clock.now();
    const respond = (reply: Reply, strike?: Strike) => this.#respond(reply, strike, request.url, beganMs);
    const registered = this.#registryReply(request, served);
    if (registered !== undefined) return respond(registered);
    const generates = this.#protocol.generates(served);
    const strike = this.#faults.next(generates);
    const instead = this.#struckReply(strike, request.url) ?? this.#dyingReply(served, generates);
    if (instead !== undefined) return respond(await instead);
    let reply: Reply;
    try {
      reply = await this.#protocol.serve(served);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      reply = error.reply;
    }
    if (strike?.kind === "slow") {
      await clock.sleep((clock.now() - beganMs) * Math.max(0, slowness(strike) - 1));
    }
    return respond(reply, strike);
  }

  /** The bootstrap registry's answer, for requests to its port. */
  #registryReply(request: OutgoingRequest, served: ServedRequest): Reply | undefined {
    const { pd, engine } = this.#options;
    if (pd?.role !== "prefill" || engine === "vllm") return undefined;
    if (new URL(request.url).port !== String(pd.bootstrapPort ?? BOOTSTRAP_PORT)) return undefined;
    const { backend } = this.#protocol;
    const { bootstrapHost: host = ANY_HOST } = pd;
    return registryReply(served, {
      version: versionNumber(backend.version),
      host: host === ANY_HOST ? "127.0.0.1" : host,
      httpPort: pd.httpPort ?? 30_000,
      pageSize: backend.scheduler.options.pageSize,
    });
  }

  /** The answer of a fault in the place of the server; undefined when the request is served. */
  #struckReply(strike: Strike | undefined, url: string): Reply | Promise<Reply> | undefined {
    switch (strike?.kind) {
      case "refuse":
        throw new TransportError("connect_failed", url);
      case "reset":
        return this.#options.clock.sleep(0).then(() => {
          throw new TransportError("reset_before_head", url);
        });
      case "hang":
        return new Promise(() => {});
      case "status_500":
        return this.#protocol.failure(500);
      case "status_503":
        return this.#protocol.failure(503);
      default:
        return undefined;
    }
  }

  /** The answer of a server whose engine is dead; without one the request hangs. */
  #dyingReply(served: ServedRequest, generates: boolean): Reply | Promise<Reply> | undefined {
    if (this.#life !== "dying" || !(generates || served.path.startsWith("/health"))) return undefined;
    if (this.#protocol.dead === undefined) return new Promise(() => {});
    return generates ? this.#protocol.failure(500) : emptyReply(503);
  }

  #respond(reply: Reply, strike: Strike | undefined, url: string, beganMs: number): ServedResponse {
    const { clock } = this.#options;
    const { status, body } = reply;
    if (typeof body !== "string") {
      const events = faultyEvents(body, strike, { url, beganMs, clock });
      return { status, headers: headersOf(reply, clock, undefined), body: events };
    }
    const bytes = utf8.encode(body);
    return {
      status,
      headers: headersOf(reply, clock, bytes.length),
      body: faultyBytes(bytes, strike, url),
    };
  }
}
