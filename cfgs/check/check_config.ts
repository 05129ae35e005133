import { quoteList } from "../../base/nearest.ts";
import { checkMaxTokens } from "./check_max_tokens.ts";
import { checkEarlyExit, checkEffort } from "./check_early_exit.ts";
import { checkFallbacks } from "./check_fallbacks.ts";
import { checkPrefill } from "./prefill.ts";
import { checkPrompt } from "./check_prompt.ts";
import { checkScorer } from "./check_scorer.ts";
import { checkStaircase } from "./check_staircase.ts";
import { builtinPrompts, promptNamed } from "../prompts/builtin.ts";
import { type Config, DEFAULT_PAIR_WINDOW, type ModelConfig } from "../schema/config.ts";
import type { ConfigPath } from "../schema/config_path.ts";
import { type ConfigFinding, findingAt, notOneOf } from "../schema/explain.ts";
import { apiKeysOf } from "../schema/limits.ts";
import { recordsSchema } from "../schema/records.ts";
import { expandGraph } from "../topology/expand_graph.ts";

/** Says everything that is wrong or doubtful about the meaning of a configuration that has the right shape. */
export function checkConfig(config: Config): ConfigFinding[] {
  const findings: ConfigFinding[] = [];
  if (Object.keys(config.models).length === 0 && config.fleet === undefined) {
    findings.push(findingAt(["models"], "is empty: give at least one model", { value: {} }));
  }
  for (const [name, model] of Object.entries(config.models)) findings.push(...checkModel(name, model));
  const used = new Set<string>();
  for (const name of Object.keys(config.graphs)) findings.push(...checkGraph(config, name, used));
  for (const [name, model] of Object.entries(config.models)) {
    if (model.served || used.has(name) || standsIn(config, name)) continue;
    findings.push(
      findingAt(["models", name], "is used by no graph, and not served by itself", { severity: "warning" }),
    );
  }
  findings.push(...checkFallbacks(config));
  findings.push(
    ...checkServer(config),
    ...checkMetrics(config),
    ...checkLimits(config),
    ...checkThreads(config),
    ...checkRecords(config),
    ...checkScorer(config),
  );
  return unique(findings);
}

function standsIn({ models }: Config, name: string): boolean {
  return Object.values(models).some(({ fallback }) => fallback?.includes(name) === true);
}

/** Settings of the server that have no effect without another one. */
function checkServer({ server }: Config): ConfigFinding[] {
  const { admin_key: adminKey, admin_keys: adminKeys, worker_hosts: hosts } = server;
  const apiKeys = apiKeysOf(server);
  if (adminKey !== undefined || adminKeys.length > 0) return [];
  const findings: ConfigFinding[] = [];
  if (apiKeys.length > 0) {
    const message =
      "is set without server.admin_key: /workers, /flush_cache and other keys' runs are refused to everybody " +
      "until one is set";
    const path = ["server", server.api_keys.length > 0 ? "api_keys" : "limits"];
    findings.push(findingAt(path, message, { severity: "warning" }));
  }
  if (hosts.length > 0 && apiKeys.length > 0) {
    const message =
      "is not in effect with server.api_keys alone: set server.admin_key, or leave worker_hosts out";
    findings.push(findingAt(["server", "worker_hosts"], message, { severity: "warning" }));
  }
  return findings;
}

function checkMetrics({ server: { host, port, metrics } }: Config): ConfigFinding[] {
  const shares = metrics?.required === true && port !== 0 && metrics.port === port &&
    (metrics.host === host || [metrics.host, host].some((one) => one === "0.0.0.0" || one === "::"));
  if (!shares) return [];
  const message =
    `is ${port}, as server.port, which has GET /metrics, too: choose another one, or leave it out`;
  return [findingAt(["server", "metrics", "port"], message)];
}

/** Keys with limits must be known, and have one name. */
function checkLimits({ server: { limits, ...server } }: Config): ConfigFinding[] {
  const names = new Map<string, string>();
  const admins = new Set([server.admin_key, ...server.admin_keys]);
  return Object.entries(limits?.keys ?? {}).flatMap(([name, { api_key: key, api_key_env: variable }]) => {
    const path = ["server", "limits", "keys", name];
    if (key === undefined) {
      return variable === undefined ? [findingAt(path, "has no key: give api_key, or api_key_env")] : [
        findingAt(
          [...path, "api_key_env"],
          `names ${variable}, which is not set: nobody could use this key`,
        ),
      ];
    }
    const other = names.get(key);
    names.set(key, name);
    if (other !== undefined) return [findingAt(path, `has the same key as ${other}: a key has one name`)];
    return admins.has(key)
      ? [findingAt(path, "is an admin key, and those have no limits: leave it out, or use another key")]
      : [];
  });
}

/** Models in this process are for one thread: several would each load their weights. */
function checkThreads({ server: { workers }, models }: Config): ConfigFinding[] {
  if (workers === 1) return [];
  return Object.entries(models).flatMap(([name, { engine }]) => {
    if (engine !== "onnx") return [];
    const message =
      `is a model in this process, and those need server.workers 1: current value is ${workers}`;
    return [findingAt(["models", name], message)];
  });
}

/** Settings of records that have no effect: there is no file, or nothing is kept. */
function checkRecords({ server: { records } }: Config): ConfigFinding[] {
  const doubt = (name: keyof typeof records, message: string) =>
    findingAt(["server", "records", name], `is not in effect ${message}`, { severity: "warning" });
  if (records.file !== undefined) {
    const message = "while server.records.keep is false: leave one of them out";
    return records.keep ? [] : [doubt("file", message)];
  }
  const standard = recordsSchema.parse({});
  return (["texts", "max_age_days", "max_bytes"] as const)
    .filter((name) => records[name] !== standard[name])
    .map((name) => doubt(name, `without server.records.file: name one, or leave ${name} out`));
}

/** Servers and pairs that the engine has no use for. */
function checkWorkers(path: ConfigPath, { engine, workers }: ModelConfig): ConfigFinding[] {
  const wantsPairs = engine.endsWith("-pd");
  return workers.flatMap((worker, index) => {
    const at = [...path, "workers", index];
    const isPair = typeof worker === "object" && "prefill" in worker;
    if (isPair !== wantsPairs) {
      const message = wantsPairs
        ? `is one server, but the engine "${engine}" needs pairs: give { "prefill": URL, "decode": URL }`
        : `is a pair, but the engine "${engine}" needs single servers: give a URL, or use "${engine}-pd"`;
      return [findingAt(at, message, { value: typeof worker === "string" ? worker : undefined })];
    }
    if (!isPair || new URL(worker.prefill).href !== new URL(worker.decode).href) return [];
    const message = "is the pair's prefill server, too: name the server that writes answers";
    return [findingAt([...at, "decode"], message)];
  });
}

function checkModel(name: string, model: ModelConfig): ConfigFinding[] {
  const path = ["models", name];
  const findings: ConfigFinding[] = [];
  const wantsPairs = model.engine.endsWith("-pd");
  findings.push(...checkWorkers(path, model));
  for (const half of ["prefill_policy", "decode_policy"] as const) {
    const policy = model[half];
    if (policy === undefined || wantsPairs) continue;
    const message = `is not in effect: the engine "${model.engine}" has whole servers; use policy`;
    findings.push(findingAt([...path, half], message, { value: policy, severity: "warning" }));
  }
  for (const [index, worker] of model.workers.entries()) {
    const first = model.workers.findIndex((other) => JSON.stringify(other) === JSON.stringify(worker));
    if (first === index) continue;
    const message = `is the same as workers[${first}]: it would count twice`;
    findings.push(findingAt([...path, "workers", index], message, { severity: "warning" }));
  }
  findings.push(...checkHedge(path, model));
  if (model.pair_window !== DEFAULT_PAIR_WINDOW && !model.engine.endsWith("-pd")) {
    const message = `is not in effect: the engine "${model.engine}" has whole servers; use max_in_flight`;
    findings.push(findingAt([...path, "pair_window"], message, { severity: "warning" }));
  }
  if (model.engine === "onnx") {
    if (model.launch !== undefined) {
      const message =
        'is not in effect: the engine "onnx" runs in this process, and nothing is started for it';
      findings.push(findingAt([...path, "launch"], message, { severity: "warning" }));
    }
    if (model.workers.length > 0) {
      const message = 'is not empty, but the engine "onnx" runs in this process: leave the workers out';
      findings.push(findingAt([...path, "workers"], message));
    }
  } else if (model.onnx !== undefined) {
    const message = `is for the engine "onnx", but the engine is "${model.engine}": leave it out`;
    findings.push(findingAt([...path, "onnx"], message));
  } else if (model.workers.length === 0 && model.launch === undefined) {
    const message = "is empty: only `canopy launch`, which starts the engines itself, can use this model";
    findings.push(findingAt([...path, "workers"], message, { value: [], severity: "warning" }));
  }
  return findings;
}

/** Says where nobody can be started a second time. */
function checkHedge(path: ConfigPath, { hedge, engine, workers }: ModelConfig): ConfigFinding[] {
  if (hedge === undefined || (engine !== "onnx" && workers.length !== 1)) return [];
  const message = engine === "onnx"
    ? "is not in effect: the model runs in this process, and a second attempt needs another worker"
    : "is not in effect while the model has one worker: a second attempt needs another one";
  return [findingAt([...path, "hedge"], message, { severity: "warning" })];
}

function checkGraph(config: Config, name: string, used: Set<string>): ConfigFinding[] {
  const graph = config.graphs[name];
  if (graph === undefined) return [];
  const path: ConfigPath = ["graphs", name];
  const findings: ConfigFinding[] = [];
  if (Object.hasOwn(config.models, name)) {
    findings.push(
      findingAt(path, `has the name of a model: clients could not tell them apart`, { value: name }),
    );
  }
  const { graph: expanded, problems } = expandGraph(graph, path);
  findings.push(...problems.map(({ path, message }) => findingAt(path, message)));
  const agents = expanded?.agents ?? [];
  const members = new Map(expanded?.clusters.map((cluster) => [cluster.id, cluster.agents]));
  for (const agent of agents) {
    const { model, prompt } = agent.config;
    used.add(model);
    if (!Object.hasOwn(config.models, model)) {
      findings.push(findingAt([...agent.path, "model"], unknownModel(config, name, model), { value: model }));
    }
    const template = promptNamed(config, prompt);
    if (template === undefined) {
      const known = [...Object.keys(config.prompts), ...Object.keys(builtinPrompts)];
      const path = promptPath(config, agent.path, prompt);
      findings.push(findingAt(path, notOneOf(prompt, known), { value: prompt }));
    } else if (graph.compat === "moa-vllm") {
      if (typeof template === "object" && "text" in template) continue;
      const message = `is "${prompt}", which is not a raw prompt: compat "moa-vllm" needs { "text": … }`;
      findings.push(findingAt(promptPath(config, agent.path, prompt), message, { value: prompt }));
    } else {
      findings.push(...checkPrompt(agent, template, agent.reads.flatMap((id) => members.get(id) ?? [])));
    }
  }
  const { finish, rewrite } = graph.early_exit.consensus;
  if (finish === "rewrite" && rewrite.model !== undefined) used.add(rewrite.model);
  findings.push(...checkEarlyExit(config, { graph, path, expanded }));
  findings.push(...checkEffort(config, { graph, path, expanded }));
  findings.push(...checkPrefill(config, name));
  findings.push(...checkStaircase(config, name));
  findings.push(...checkMaxTokens(config, name, (model) => config.models[model]?.context_tokens));
  return findings;
}

function unknownModel(config: Config, graph: string, model: string): string {
  if (model === graph) return `is "${model}", the graph itself: a graph cannot call itself`;
  if (Object.hasOwn(config.graphs, model)) {
    return `is "${model}", a graph: an agent calls a model, one of ${quoteList(Object.keys(config.models))}`;
  }
  return notOneOf(model, Object.keys(config.models));
}

/** The prompt name stands at the agent or, for all agents of a layer, at the layer. */
function promptPath(config: Config, agentPath: ConfigPath, prompt: string): ConfigPath {
  const graph = config.graphs[String(agentPath[1])];
  const index = agentPath[3];
  if (graph === undefined || !("layers" in graph) || typeof index !== "number") {
    return [...agentPath, "prompt"];
  }
  const layer = graph.layers[index];
  const clusters = typeof layer?.clusters === "object" ? layer.clusters : [];
  const own = agentPath[4] === "agents"
    ? layer?.agents?.[Number(agentPath[5])]
    : clusters[Number(agentPath[5])]?.agents[Number(agentPath[7])];
  return own?.prompt === prompt ? [...agentPath, "prompt"] : [...agentPath.slice(0, 4), "prompt"];
}

/** Agents that are written once and stand in several clusters report once. */
function unique(findings: readonly ConfigFinding[]): ConfigFinding[] {
  return [...new Map(findings.map((finding) => [finding.message, finding])).values()];
}
