import { SystemClock } from "../../base/clock.ts";
import { Random } from "../../base/random.ts";
import { demoConfig, type DemoModel } from "../../cli/demo/config.ts";
import { createRouter } from "../../router/router.ts";
import { systemTransport } from "../../router/transport/system.ts";
import { type ListeningSimulator, startSimulator } from "../../simulator/serve.ts";
import type { Target } from "./openai_suite.ts";

/** The demo's tree on a port of its own, over simulated engines in this process. */
export async function serveTree(): Promise<{ target: Target; close: () => Promise<void> }> {
  const clock = new SystemClock();
  const transport = systemTransport();
  const servers: ListeningSimulator[] = [];
  const models: DemoModel[] = [];
  for (const [name, engine] of [["4b", "vllm"], ["8b", "vllm"], ["32b", "sglang"]] as const) {
    const model = `sim-${name}`;
    const server = await startSimulator({
      engine,
      models: [model],
      cost: "instant",
      answers: "scripted",
      seed: "conformance",
      clock,
      host: "127.0.0.1",
      port: 0,
    });
    servers.push(server);
    models.push({ name, model, engine, url: server.url });
  }
  const config = demoConfig({ models, seeded: true, maxTokens: 256, host: "127.0.0.1", port: 0 });
  const router = createRouter({ config, clock, random: new Random("conformance"), transport });
  const { url } = await router.listen({ host: "127.0.0.1", port: 0 });
  const close = async () => {
    await router.close();
    for (const server of servers) await server.close();
    await transport.close();
  };
  return { target: { baseUrl: url, virtualModel: "moa", engineModel: "4b" }, close };
}
