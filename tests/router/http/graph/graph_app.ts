import assert from "node:assert/strict";
import { VirtualClock } from "../../../../base/clock.ts";
import { Random } from "../../../../base/random.ts";
import { configSchema } from "../../../../cfgs/schema/config.ts";
import type { EngineCapabilities } from "../../../../router/engines/engine.ts";
import { createApp } from "../../../../router/http/app.ts";
import { Drain } from "../../../../router/http/gate/drain.ts";
import { createMoa } from "../../../../router/moa/run/moa.ts";
import { Arrivals } from "../../../../router/pool/arrivals.ts";
import type { ServedModel } from "../../../../router/served/served_model.ts";
import { fakeGraph, FakeRelay } from "../fakes.ts";
import { FakeEngine, type Script } from "../../moa/fake_engine.ts";
import { characterTokenizer, promptText } from "../../moa/run_harness.ts";
import { noMembership } from "../../no_membership.ts";

/** What a test says about the world. */
export interface GraphAppOptions {
  /** How model `model` answers a prompt. */
  readonly script?: (prompt: string, model: string) => Script;
  readonly server?: Record<string, unknown>;
  readonly models?: Record<string, Record<string, unknown>>;
  readonly capabilities?: Partial<EngineCapabilities>;
}

/** The HTTP surface over real runs over fake engines, under a virtual clock. A virtual model `moa` is listed. */
export function graphApp(options: GraphAppOptions = {}) {
  const clock = new VirtualClock();
  const config = configSchema.parse({
    server: options.server ?? {},
    models: options.models ?? {
      small: { model: "org/small", engine: "openai", tokenizer: false },
      big: { model: "org/big", engine: "openai" },
      hidden: { model: "org/hidden", engine: "openai", served: false },
    },
  });
  const engines = new Map<string, FakeEngine>();
  const models = new Map<string, ServedModel>();
  for (const [name, modelConfig] of Object.entries(config.models)) {
    const engine = new FakeEngine(
      clock,
      (request) => options.script?.(promptText(request), name) ?? { pieces: ["ok"] },
      { capabilities: { contextTokens: 8192, ...options.capabilities } },
    );
    engines.set(name, engine);
    const tokenizer = modelConfig.tokenizer === false ? undefined : characterTokenizer;
    models.set(name, {
      name,
      config: modelConfig,
      engine,
      pool: engine.pool,
      membership: noMembership,
      tokenizer,
    });
  }
  const random = new Random("graphs");
  const graphs = new Map([["moa", fakeGraph("moa")]]);
  const drain = new Drain({ clock, timeoutMs: config.server.drain_timeout_ms });
  const moa = createMoa({ config, graphs, clock, random, models, arrivals: new Arrivals() });
  const relay = new FakeRelay();
  const transport = { send: () => Promise.reject(new Error("unused")), close: () => Promise.resolve() };
  const app = createApp({ config, clock, random, transport, models, moa, relay, drain });
  return {
    app,
    clock,
    drain,
    moa,
    relay,
    engines,
    post: (path: string, body: unknown, init: RequestInit = {}) =>
      app.request(path, { method: "POST", body: JSON.stringify(body), ...init }),
    /** Fails unless every engine is idle, every place is given back and no timer is set. */
    assertIdle: () => {
      for (const [name, engine] of engines) {
        assert.equal(engine.active, 0, `${name} still generates`);
        assert.equal(engine.placed, 0, `${name} has places that were not given back`);
      }
      assert.equal(clock.pendingTimers, 0, "timers are left");
    },
  };
}
