import { VirtualClock } from "../../../base/clock.ts";
import type { JsonObject } from "../../../base/json.ts";
import { PdFabric } from "../../../simulator/pd/fabric.ts";
import type { PdOptions, Simulator, SimulatorOptions } from "../../../simulator/server/simulator_options.ts";
import { createSimulator } from "../../../simulator/simulator.ts";
import { type Answer, ask } from "../recordings.ts";

/** A prefill and a decode server under one virtual clock. */
export interface Pair {
  readonly clock: VirtualClock;
  readonly fabric: PdFabric;
  readonly prefill: Simulator;
  readonly decode: Simulator;
  run<T>(main: () => Promise<T>): Promise<T>;
  /** Sends the same body to both halves with a fresh room, as a router does. */
  both(path: string, body: JsonObject): Promise<{ prefill: Answer; decode: Answer }>;
}

/** Makes a pair; time-outs are 12 s, as in the recordings. */
export function makePair(
  options: Partial<SimulatorOptions> = {},
  pd: Partial<PdOptions> = {},
): Pair {
  const clock = new VirtualClock();
  const fabric = new PdFabric();
  const half = (role: "prefill" | "decode") =>
    createSimulator({
      engine: "sglang",
      models: ["tiny-qwen3"],
      cost: "instant",
      seed: `test-${role}`,
      ...options,
      clock,
      pd: { bootstrapTimeoutMs: 12_000, waitingTimeoutMs: 12_000, ...pd, role, fabric },
    });
  const prefill = half("prefill");
  const decode = half("decode");
  let room = 1000;
  return {
    clock,
    fabric,
    prefill,
    decode,
    run: (main) => clock.run(main, { limitMs: 3_600_000 }),
    async both(path, body) {
      const meeting = { bootstrap_host: "127.0.0.1", bootstrap_port: 8998, bootstrap_room: room += 100 };
      const full = { ...meeting, ...body };
      const [first, second] = await Promise.all([
        ask(prefill, { path, body: full }),
        ask(decode, { path, body: full }),
      ]);
      return { prefill: first, decode: second };
    },
  };
}
