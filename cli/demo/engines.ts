import type { DemoModel } from "./config.ts";
import type { Io } from "../kit/io.ts";
import { type ListeningSimulator, startSimulator } from "../../simulator/serve.ts";

/** The simulated engines of the demonstration. */
export interface DemoEngines {
  readonly models: readonly DemoModel[];
  close(): Promise<void>;
}

const SIZES = [
  { name: "4b", model: "Qwen/Qwen3-VL-4B-Instruct", engine: "vllm" },
  { name: "8b", model: "Qwen/Qwen3-VL-8B-Instruct", engine: "vllm" },
  { name: "32b", model: "Qwen/Qwen3-VL-32B-Instruct", engine: "sglang" },
] as const;

/** Starts simulated servers of three model sizes on free loopback ports, `speedup` times as fast as H200 GPUs. */
export async function startDemoEngines(io: Io, speedup: number): Promise<DemoEngines> {
  const servers: ListeningSimulator[] = [];
  const close = async () => void await Promise.all(servers.map((server) => server.close()));
  try {
    const models: DemoModel[] = [];
    for (const { name, model, engine } of SIZES) {
      const server = await startSimulator({
        engine,
        models: [model],
        cost: name,
        speedup,
        answers: "scripted",
        seed: "demo",
        clock: io.clock,
        host: "127.0.0.1",
        port: 0,
      });
      servers.push(server);
      models.push({ name, model, engine, url: server.url });
    }
    return { models, close };
  } catch (error) {
    await close();
    throw error;
  }
}
