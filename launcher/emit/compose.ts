import { stringify } from "yaml";
import type { Config } from "../../cfgs/schema/config.ts";
import { CACHE_IN_CONTAINER } from "../commands/docker.ts";
import { DOCKERFILE, healthCheck, PROGRAM_IN_CONTAINER } from "./container_file.ts";
import {
  containerEnv,
  type EmitInput,
  type EmittedFile,
  imageOf,
  keyVariables,
  processesOf,
  routerConfig,
  routerConfigText,
  routerPort,
  routerStopSeconds,
  startsAfter,
  weightsFolder,
  withOptions,
} from "./emitted.ts";
import type { PlannedEngine } from "../plan/launch_plan.ts";

/** Time for weights to be fetched and loaded, and graphs to be captured. */
const START_PERIOD = "60m";

/** A compose project: a service for each engine, the router in front. */
export function emitCompose(input: EmitInput): EmittedFile[] {
  const { plan } = input;
  const engines = processesOf(plan);
  const serviceOf = (engine: PlannedEngine) => engine.within ?? engine.name;
  const config = routerConfig(input, (engine) => `http://${serviceOf(engine)}:${engine.port}`);
  const port = routerPort(config);
  const scheme = config.server.tls === undefined ? "http" : "https";
  const services: Record<string, unknown> = {};
  for (const engine of engines) services[engine.name] = engineService(engine, input);
  services["canopy"] = {
    ...canopyImage(input),
    environment: environmentOf(config),
    command: ["serve", "/etc/canopy/canopy.jsonc", "--host", "0.0.0.0", "--port", String(port)],
    ports: [`127.0.0.1:${port}:${port}`],
    volumes: ["./canopy.jsonc:/etc/canopy/canopy.jsonc:ro"],
    healthcheck: { test: healthCheck(port, scheme), interval: "10s", timeout: "6s", start_period: "60s" },
    depends_on: dependsOn(engines),
    restart: "unless-stopped",
    stop_grace_period: `${routerStopSeconds(config)}s`,
  };
  const project = { name: "canopy", services, volumes: { "model-cache": {} } };
  const comment = "# Engines and router of one host. Start: docker compose up -d; the answer is on " +
    `${scheme}://127.0.0.1:${port}.\n# Gated models: set HF_TOKEN in the environment or in .env.\n`;
  return [
    {
      path: "compose.yaml",
      text: comment + stringify(project, { lineWidth: 0, aliasDuplicateObjects: false }),
    },
    { path: "canopy.jsonc", text: routerConfigText(config, undefined) },
    DOCKERFILE,
  ];
}

/** Keys as they are where compose runs, or in .env. */
function environmentOf(config: Config): Record<string, null> | undefined {
  const names = keyVariables(config);
  return names.length === 0 ? undefined : Object.fromEntries(names.map((name) => [name, null]));
}

/** The image of Canopy, built from the folder of the files where nobody has named another one. */
function canopyImage({ canopyImage: image, buildsImage }: EmitInput): Record<string, unknown> {
  return buildsImage ? { image, build: "." } : { image };
}

function engineService(engine: PlannedEngine, input: EmitInput): Record<string, unknown> {
  const [program = "", ...args] = withOptions(engine.bare.argv, { "--host": "0.0.0.0" });
  const simulated = engine.family === "sim";
  const before = startsAfter(engine, input.plan);
  return {
    ...(simulated ? canopyImage(input) : { image: imageOf(engine, input) }),
    entrypoint: simulated ? [PROGRAM_IN_CONTAINER] : [escaped(program)],
    command: (simulated ? args.slice(args.indexOf("sim")) : args).map(escaped),
    ...(!simulated && realEngine(engine, weightsFolder(engine, input.config))),
    healthcheck: {
      test: simulated ? healthCheck(engine.port) : [
        "CMD",
        "python3",
        "-c",
        `import urllib.request as u; u.urlopen("http://127.0.0.1:${engine.port}/health", timeout=5)`,
      ],
      interval: "10s",
      timeout: "10s",
      retries: 3,
      start_period: START_PERIOD,
    },
    depends_on: before.length === 0 ? undefined : dependsOn(before),
    restart: "unless-stopped",
    stop_grace_period: "30s",
  };
}

/** Parts of a service that a simulated engine does not need: environment, volumes and GPUs. */
function realEngine(engine: PlannedEngine, folder: string | undefined): Record<string, unknown> {
  const ids = engine.gpus.map((gpu) => gpu.id);
  const amd = engine.gpus[0]?.vendor === "amd";
  const reservation = { driver: "nvidia", device_ids: ids, capabilities: ["gpu"] };
  return {
    environment: {
      ...mapValues(containerEnv(engine, engine.name), escaped),
      HIP_VISIBLE_DEVICES: amd ? ids.join(",") : undefined,
      // As it is where compose runs, or in .env; absent when it is not set there.
      HF_TOKEN: null,
    },
    volumes: [
      `model-cache:${CACHE_IN_CONTAINER}`,
      ...(folder === undefined ? [] : [`${folder}:${folder}:ro`]),
    ],
    ipc: "host",
    devices: amd ? ["/dev/kfd", "/dev/dri"] : undefined,
    group_add: amd ? ["video"] : undefined,
    deploy: amd || ids.length === 0 ? undefined : { resources: { reservations: { devices: [reservation] } } },
  };
}

function dependsOn(engines: readonly PlannedEngine[]): Record<string, unknown> {
  return Object.fromEntries(engines.map((engine) => [engine.name, { condition: "service_healthy" }]));
}

/** Compose replaces what follows a dollar sign. */
function escaped(text: string): string {
  return text.replaceAll("$", "$$$$");
}

function mapValues(record: Readonly<Record<string, string>>, change: (value: string) => string) {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
}
