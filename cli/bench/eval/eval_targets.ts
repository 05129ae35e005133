import { SIZES } from "../../../bench/experiments/world.ts";
import { loadCheckedConfig, type LoadedConfig } from "../../../cfgs/load/load.ts";
import { configProblemText } from "../../../cfgs/load/problems.ts";
import type { Config, GraphConfig } from "../../../cfgs/schema/config.ts";
import type { ConfigPath } from "../../../cfgs/schema/config_path.ts";
import { isSecretPath, shownSecret } from "../../../cfgs/schema/secrets.ts";
import { UsageError } from "../../kit/args.ts";
import { listServed, type ServedName, type Server, serverUrl } from "../../kit/client.ts";
import type { OptionValues } from "../../kit/command.ts";
import type { Io } from "../../kit/io.ts";
import { DEFAULT_URL } from "../../kit/server_place.ts";
import { reachableUrl, startRouter } from "../../kit/router/local_router.ts";
import { digestOf } from "../../../bench/records/digest.ts";
import { COST_OPTION, givenCosts, type NamedCost } from "../model_costs.ts";
import { type CostOf, listeningEngines, simulatedConfig } from "./simulated_config.ts";
import { SimulatedWorld } from "./simulated_world.ts";

/** Where models run in this process, which takes real time. */
const DEFAULT_SPEEDUP = 100;

/** Runs that are kept at least, until their records are read. */
const RUNS_KEPT = 200;

/** Options that say who answers. */
export const TARGET_OPTIONS = {
  url: { type: "text", value: "URL", help: `The server; ${DEFAULT_URL} by default` },
  config: {
    type: "list",
    value: "FILE",
    help: "Serve this configuration, or preset, in this process and ask it instead of a server",
  },
  simulate: {
    type: "flag",
    help: "Put simulated engines in the place of the servers that --config names",
  },
  speedup: {
    type: "number",
    value: "N",
    min: 0.001,
    fraction: true,
    help: "With --simulate: in real time, so many times as fast as H200 GPUs; by default in virtual time",
  },
  cost: {
    ...COST_OPTION,
    help:
      `With --simulate: what a model's engine, or each one's, takes: ${
        SIZES.join(", ")
      } on an H200, or a file ` +
      "of bench calibrate; by default what its name says",
  },
  mode: {
    type: "list",
    value: "MODE",
    help:
      "How to answer: NAME of a model or graph, or one of the forms below; the first is what others are compared " +
      "with; by default all that is served",
  },
  simulated: {
    type: "flag",
    help: "Say that engines are simulated where the server does not (Canopy's own simulator does)",
  },
} as const;

/** A configuration that stands in an experiment file. */
export interface InlineConfig {
  readonly name: string;
  readonly value: unknown;
}

/** A configuration's path or preset, or itself. */
export type ConfigChoice = string | InlineConfig;

/** Values of these options. */
export type TargetValues = Omit<OptionValues<typeof TARGET_OPTIONS>, "config"> & {
  readonly config: readonly ConfigChoice[];
};

/** A model or graph, and where it is asked. */
export interface EvalTarget extends ServedName {
  readonly server: Server;
  /** As its server names it. */
  readonly model: string;
  /** A graph that is the paper's #2: a tree without incremental prefill and early exit. */
  readonly isTree?: boolean | undefined;
  /** A model whose name an earlier configuration has: asked only when it is named. */
  readonly again: boolean;
}

/** All that can be asked. */
export interface EvalTargets {
  /** In the order of configurations, each as its server lists it. */
  readonly list: readonly EvalTarget[];
  /** Undefined for a name that is certain not to be there. */
  find(name: string): EvalTarget | undefined;
  /** For people. */
  readonly where: string;
  /** Identifies who answers in the file of records. */
  readonly settings: string;
  /** The same by content: a server's URL, or what configurations say, wherever they lie. */
  readonly content: Readonly<Record<string, unknown>>;
  /** GPUs of a server, or pair, of a model; undefined where nothing tells. */
  gpusOf(model: string): number | undefined;
  /** Has the clock and the way to what is asked, where that is simulated in virtual time. */
  readonly world?: SimulatedWorld | undefined;
  close(): Promise<void>;
}

/** Who answers: a server, or configurations in this process. Throws `UsageError` for options that do not go together. */
export async function evalTargets(values: TargetValues, io: Io): Promise<EvalTargets> {
  const { url, config: choices, mode, simulate, speedup, cost } = values;
  if (cost.length > 0 && !simulate) {
    throw new UsageError("Option --cost needs --simulate: other engines take what they take");
  }
  if (choices.length === 0) {
    if (simulate) throw new UsageError("Option --simulate needs --config: it names the models to simulate");
    if (speedup !== undefined) throw new UsageError("Option --speedup needs --simulate");
    const server: Server = { url: serverUrl(url ?? DEFAULT_URL), apiKey: io.env["CANOPY_API_KEY"] };
    const list = await listServed(io.transport, server, io.stop).catch((error: unknown) => {
      // Not every compatible server lists its models.
      if (mode.length === 0) throw error;
      return [];
    });
    const targetOf = (one: ServedName): EvalTarget => ({ ...one, server, model: one.id, again: false });
    return {
      list: list.map(targetOf),
      // What a server does not list it may know all the same.
      find: (name) => targetOf(list.find(({ id }) => id === name) ?? { id: name, simulated: false }),
      where: server.url,
      settings: server.url,
      content: { url: server.url },
      gpusOf: () => undefined,
      close: () => Promise.resolve(),
    };
  }
  if (url !== undefined) throw new UsageError("Option --config serves in this process: leave out --url");
  if (!simulate && speedup !== undefined) throw new UsageError("Option --speedup needs --simulate");
  const loaded = choices.map((choice) => ({ choice, ...loadChoice(choice, io) }));
  if (!simulate) return await startedTargets(loaded, {}, io);
  const models = loaded.flatMap(({ config }) => Object.entries(config.models));
  const simulated = models.filter(([, { engine }]) => engine !== "onnx").map(([name]) => name);
  const costs = givenCosts(cost, simulated, io);
  const needsTime = simulated.length < models.length;
  const simulation = speedup === undefined && !needsTime
    ? { costs, world: new SimulatedWorld(costOfModel(costs)) }
    : { costs, speedup: speedup ?? DEFAULT_SPEEDUP };
  return await startedTargets(loaded, simulation, io);
}

function costOfModel(costs: ReadonlyMap<string, NamedCost>): CostOf {
  return (model) => (costs.get(model) ?? costs.get(""))?.cost;
}

/** How the servers of configurations are simulated: in virtual time, or in real time; else they are real. */
interface Simulation {
  readonly world?: SimulatedWorld | undefined;
  readonly speedup?: number | undefined;
  /** Of models whose engines take other than their names say. */
  readonly costs?: ReadonlyMap<string, NamedCost>;
}

async function startedTargets(
  loaded: readonly (LoadedConfig & { readonly choice: ConfigChoice })[],
  { world, speedup, costs = new Map() }: Simulation,
  io: Io,
): Promise<EvalTargets> {
  const started: { close(): Promise<void> }[] = world === undefined ? [] : [world];
  const close = async () => {
    for (const one of started.reverse()) await one.close();
  };
  const serve = async (read: Config): Promise<string> => {
    if (world !== undefined) return await world.serve(read);
    const config = speedup === undefined
      ? read
      : await simulatedConfig(read, listeningEngines({ speedup, started }, io), costOfModel(costs));
    const { router, url } = await startRouter(config, io, { host: "127.0.0.1", port: 0 });
    started.push(router);
    await router.ready();
    return reachableUrl(url);
  };
  const listed = (server: Server) =>
    world === undefined
      ? listServed(io.transport, server, io.stop)
      : world.clock.run(() => listServed(world.transport, server, io.stop));
  try {
    const list: EvalTarget[] = [];
    const digests: string[] = [];
    for (const { choice, config: read, warnings } of loaded) {
      const file = nameOfChoice(choice);
      digests.push(digestOf(withoutSecrets(read, [])));
      for (const warning of warnings) io.err.write(`${configProblemText(warning)}\n`);
      const server: Server = { url: await serve(privateConfig(read)), apiKey: undefined };
      for (const one of await listed(server)) {
        // Graphs of MoA-vllm's kind have a name that says so, since most configurations call theirs "moa".
        const name = read.graphs[one.id]?.compat === "moa-vllm" ? "moa-vllm" : one.id;
        const taken = list.some(({ id }) => id === name);
        list.push({
          ...one,
          id: taken ? `${nameOf(file)}/${one.id}` : name,
          server,
          model: one.id,
          isTree: isTreeGraph(read.graphs[one.id]),
          again: taken && read.graphs[one.id] === undefined,
        });
      }
    }
    const names = loaded.map(({ choice }) => nameOfChoice(choice)).join(", ");
    const engines = enginesText({ world, speedup, costs });
    const find = (name: string) => list.find(({ id }) => id === name);
    return {
      list,
      find,
      where: `${names} in this process${engines}`,
      settings: `${names}${engines}`,
      content: { config: digests, speedup, time: world && "virtual", ...costContent(costs) },
      gpusOf: (model) => loaded.map(({ config }) => gpusIn(config, model)).find((gpus) => gpus !== undefined),
      world,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** For people. */
function enginesText({ world, speedup, costs = new Map() }: Simulation): string {
  const named = [...costs].map(([model, { text }]) => `${model === "" ? "all" : model} as ${text}`).join(
    ", ",
  );
  const other = named === "" ? "" : `, but ${named} (--cost)`;
  if (world !== undefined) return `, simulated H200 GPUs in virtual time${other}`;
  return speedup === undefined ? "" : `, simulated engines ${speedup} times as fast as H200 GPUs${other}`;
}

/** Costs by their content; nothing where none is given. */
function costContent(costs: ReadonlyMap<string, NamedCost>): Readonly<Record<string, unknown>> {
  return costs.size === 0
    ? {}
    : { cost: Object.fromEntries([...costs].map(([model, { cost }]) => [model, digestOf(cost)])) };
}

/** A server has one GPU where nothing says how many, a pair two, and what runs in this process none. */
function gpusIn(config: Config, name: string): number | undefined {
  const model = config.models[name];
  if (model === undefined) return undefined;
  if (model.engine === "onnx") return 0;
  return (model.launch?.tensor_parallel ?? 1) * (model.engine.endsWith("-pd") ? 2 : 1);
}

/** True for a tree without incremental prefill and early exit: at least two clusters in its first layer. */
function isTreeGraph(graph: GraphConfig | undefined): boolean {
  if (graph === undefined || !("layers" in graph)) return false;
  const { layers: [first, second], incremental_prefill: incremental, early_exit: exit, root } = graph;
  const clusters = Array.isArray(first?.clusters) ? first.clusters.length : first?.clusters ?? 0;
  return clusters > 1 && second !== undefined && incremental.mode === "off" && root === "wait" &&
    exit.metric === "none" && exit.scope !== "run";
}

function nameOfChoice(choice: ConfigChoice): string {
  return typeof choice === "string" ? choice : choice.name;
}

/** Reads and checks a configuration. Throws `ConfigError`. */
export function loadChoice(choice: ConfigChoice, { env }: Pick<Io, "env">): LoadedConfig {
  const source = typeof choice === "string" ? { path: choice } : { path: choice.name, value: choice.value };
  return loadCheckedConfig({ ...source, env });
}

/** The value without keys and passwords, which do not change answers and differ from host to host. */
function withoutSecrets(value: unknown, path: ConfigPath): unknown {
  if (Array.isArray(value)) return value.map((item, at) => withoutSecrets(item, [...path, at]));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, withoutSecrets(item, [...path, key])]),
    );
  }
  return isSecretPath(path) ? undefined : shownSecret(value, path);
}

/**
 * For this process alone: plain HTTP, no keys, no port for metrics, one thread; its runs and spans are none of a service's,
 * and are kept for as long as it takes to read them.
 */
function privateConfig(config: Config): Config {
  const { server } = config;
  const without = { limits: undefined, metrics: undefined, tls: undefined, tracing: undefined };
  const records = { ...server.records, keep: true, file: undefined };
  const max_runs_kept = Math.max(server.max_runs_kept, RUNS_KEPT);
  return { ...config, server: { ...server, ...without, records, max_runs_kept, api_keys: [], workers: 1 } };
}

/** `configs/tree.jsonc` → `tree`. */
function nameOf(file: string): string {
  return file.replace(/^.*[/\\]/, "").replace(/\.\w+$/, "");
}
