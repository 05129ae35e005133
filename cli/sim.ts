import { startSimulator } from "../bench/simulator/serve.ts";
import { defineCommand } from "./command.ts";
import { untilStopped } from "./until_stopped.ts";

/** `canopy sim`: a simulated engine on a real port. */
export const simCommand = defineCommand({
  name: "sim",
  summary: "Run a simulated vLLM or SGLang server on a port; no GPU needed",
  maxArguments: 0,
  options: {
    engine: {
      type: "text",
      value: "ENGINE",
      choices: ["vllm", "sglang"],
      help: "What it pretends to be; vllm by default",
    },
    model: { type: "list", value: "NAME", help: "Model name it answers to; sim by default" },
    cost: {
      type: "text",
      value: "SIZE",
      choices: ["4b", "8b", "32b", "instant"],
      help: "How long things take: a model of this size on an H200, or no time at all; 4b by default",
    },
    speedup: {
      type: "number",
      value: "N",
      fraction: true,
      min: 0.001,
      help: "Times faster than an H200; 1 by default",
    },
    scripted: { type: "flag", help: "Answer known questions with worked solutions" },
    version: { type: "text", value: "VERSION", help: "Version it pretends to have, such as 0.5.18" },
    seed: { type: "text", value: "TEXT", help: "Seed of ids and answers" },
    host: { type: "text", value: "HOST", help: "Address to listen on; 127.0.0.1 by default" },
    port: {
      type: "number",
      value: "PORT",
      min: 0,
      max: 65535,
      help: "Port to listen on; any free one by default",
    },
  },
  details: `Examples:
  canopy sim --engine sglang --model Qwen/Qwen3-8B --cost 8b --port 30000
  canopy sim --cost instant --scripted --port 8100`,
  run: async (values, _, io) => {
    const engine = values.engine ?? "vllm";
    const models = values.model.length === 0 ? ["sim"] : values.model;
    const server = await startSimulator({
      engine,
      models,
      cost: values.cost ?? "4b",
      speedup: values.speedup ?? 1,
      answers: values.scripted ? "scripted" : "hashed",
      seed: values.seed ?? "sim",
      clock: io.clock,
      host: values.host ?? "127.0.0.1",
      port: values.port ?? 0,
      ...(values.version === undefined ? {} : { version: values.version }),
    });
    try {
      io.out.write(`Simulated ${engine} with ${models.join(", ")} is listening on ${server.url}\n`);
      await untilStopped(io);
      return 0;
    } finally {
      await server.close();
    }
  },
});
