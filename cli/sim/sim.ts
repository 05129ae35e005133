import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import { costNamed } from "../kit/cost_file.ts";
import { untilStopped } from "../kit/io.ts";
import { ANY_HOST, PdFabric } from "../../simulator/pd/fabric.ts";
import { type ListeningSimulator, startSimulator } from "../../simulator/serve.ts";
import type { PdOptions } from "../../simulator/server/simulator_options.ts";
import { BUILTIN_TOKENIZER } from "../../simulator/text/tokenizer.ts";

const SIZES = ["4b", "8b", "32b"] as const;

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
      value: "SIZE|FILE",
      help:
        `How long things take: a model of a size on an H200 (${
          SIZES.join(", ")
        }; 4b by default), no time at all ` +
        "(instant), or what canopy bench calibrate has measured",
    },
    speedup: {
      type: "number",
      value: "N",
      fraction: true,
      min: 0.001,
      help: "Times faster than an H200, or than what was measured; 1 by default",
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
      help: "Port to listen on, the first one of pairs; any free one by default",
    },
    "dp-size": {
      type: "number",
      value: "N",
      min: 1,
      max: 64,
      help: "SGLang: data-parallel ranks, each with a cache of its own; 1 by default",
    },
    "pd-prefill": {
      type: "number",
      value: "N",
      min: 1,
      max: 64,
      help: "Run N prefill servers instead of whole ones; goes with --pd-decode",
    },
    "pd-decode": {
      type: "number",
      value: "N",
      min: 1,
      max: 64,
      help: "Run N decode servers for the prefill servers",
    },
    "bootstrap-port": {
      type: "number",
      value: "PORT",
      min: 0,
      max: 65535,
      help: "First port of SGLang's bootstrap registries; any free ones by default",
    },
  },
  details: `Examples:
  canopy sim --engine sglang --model Qwen/Qwen3-8B --cost 8b --port 30000
  canopy sim --cost instant --scripted --port 8100
  canopy sim --engine sglang --pd-prefill 1 --pd-decode 2 --bootstrap-port 8998

Prefill and decode servers find each other within one process: all that belong together are started together.`,
  run: async (values, _, io) => {
    const engine = values.engine ?? "vllm";
    const models = values.model.length === 0 ? ["sim"] : values.model;
    const halves = [values["pd-prefill"], values["pd-decode"]];
    if ((halves[0] === undefined) !== (halves[1] === undefined)) {
      throw new UsageError("--pd-prefill and --pd-decode go together: a pair needs both");
    }
    if (values["bootstrap-port"] !== undefined && halves[0] === undefined) {
      throw new UsageError("--bootstrap-port needs --pd-prefill and --pd-decode: others have no registry");
    }
    if (values["dp-size"] !== undefined && engine !== "sglang") {
      throw new UsageError("--dp-size needs --engine sglang");
    }
    const common = {
      engine,
      models,
      dpSize: values["dp-size"],
      cost: costNamed(values.cost ?? "4b", [...SIZES, "instant"], io),
      speedup: values.speedup ?? 1,
      answers: values.scripted ? "scripted" : "hashed",
      clock: io.clock,
      host: values.host ?? "127.0.0.1",
      version: values.version,
      tokenizerPath: BUILTIN_TOKENIZER,
    } as const;
    const servers: ListeningSimulator[] = [];
    try {
      for (const { pd, name, index } of members(engine, halves, values["bootstrap-port"])) {
        const server = await startSimulator({
          ...common,
          seed: `${values.seed ?? "sim"}${index === 0 ? "" : `/${index}`}`,
          port: values.port === undefined || values.port === 0 ? 0 : values.port + index,
          pd,
        });
        servers.push(server);
        const registry = server.bootstrapPort === undefined ? "" : `, bootstrap port ${server.bootstrapPort}`;
        io.out.write(
          `Simulated ${engine}${name} with ${models.join(", ")} is listening on ${server.url}${registry}\n`,
        );
      }
      await untilStopped(io);
      return 0;
    } finally {
      await Promise.all(servers.map((server) => server.close()));
    }
  },
});

/** The servers to start: one whole one, or the halves of pairs, all of which may work together. */
function members(
  engine: "vllm" | "sglang",
  [prefills = 0, decodes = 0]: readonly (number | undefined)[],
  firstPort: number | undefined,
): { readonly index: number; readonly name: string; readonly pd: PdOptions | undefined }[] {
  if (prefills === 0) return [{ index: 0, name: "", pd: undefined }];
  const fabric = new PdFabric();
  const roles = [...Array<"prefill">(prefills).fill("prefill"), ...Array<"decode">(decodes).fill("decode")];
  // vLLM's side channel is a number only: nothing listens there.
  const base = firstPort ?? (engine === "sglang" ? 0 : 5600);
  return roles.map((role, index) => ({
    index,
    name: ` ${role} server`,
    pd: { role, fabric, bootstrapHost: ANY_HOST, bootstrapPort: base === 0 ? 0 : base + index },
  }));
}
