import type { FoundServer } from "./find_servers.ts";

/** A model of a starter configuration. */
interface StarterModel {
  /** Name in the configuration: no dots, so that `--set models.NAME.…` can name it. */
  readonly name: string;
  readonly model: string;
  readonly engine: FoundServer["engine"];
  readonly workers: readonly string[];
}

/** A configuration for somebody to begin with. */
export interface StarterConfig {
  /** JSONC, with comments. */
  readonly text: string;
  /** Names of the models that propose, in order; the same one repeated where there is only one. */
  readonly proposers: readonly string[];
  /** Name of the model that joins their answers. */
  readonly aggregator: string;
}

/** Options of `starterConfig`. */
export interface StarterOptions {
  readonly servers: readonly FoundServer[];
  /** Port of Canopy, which none of the servers has. */
  readonly port: number;
  /** Environment variable with the servers' key. */
  readonly apiKeyEnv?: string | undefined;
  /** Path of the JSON Schema, as editors read it. */
  readonly schema: string;
}

/** Agents that propose: of as many models as there are, at most. */
const PROPOSERS = 3;
/** Names of models that answer no questions. */
const NO_CHAT = /embed|rerank|whisper|\btts\b|clip|\bbge\b|reward|guard|ocr|diffusion/i;

/**
 * A graph `moa` over the models of servers: up to three propose, the largest of them joins their answers. Undefined
 * where no server lists a model that chats.
 */
export function starterConfig(options: StarterOptions): StarterConfig | undefined {
  const models = modelsOf(options.servers);
  const chosen = models.slice(0, PROPOSERS);
  const largest = chosen.toSorted((a, b) => billionsOf(b.model) - billionsOf(a.model))[0];
  if (largest === undefined) return undefined;
  const names = chosen.map(({ name }) => name);
  const proposers = names.length === 1 ? Array<string>(PROPOSERS).fill(largest.name) : names;
  return { text: textOf(models, proposers, largest.name, options), proposers, aggregator: largest.name };
}

/** Models by the servers that have them; the same model on several servers of one kind is one. */
function modelsOf(servers: readonly FoundServer[]): StarterModel[] {
  const models: { name: string; model: string; engine: FoundServer["engine"]; workers: string[] }[] = [];
  for (const { url, engine, models: listed } of servers) {
    for (const model of listed.filter((name) => !NO_CHAT.test(name))) {
      const known = models.find((one) => one.model === model && one.engine === engine);
      if (known !== undefined) known.workers.push(url);
      else models.push({ name: freeName(model, models), model, engine, workers: [url] });
    }
  }
  return models;
}

/** `Qwen/Qwen3-4B-Instruct` → `qwen3-4b-instruct`; `-2` where that is taken. */
function freeName(model: string, taken: readonly { readonly name: string }[]): string {
  const base = (model.split("/").at(-1) ?? model).toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(
    /^-+|-+$/g,
    "",
  );
  const names = new Set(taken.map(({ name }) => name));
  // The graph is served by the name moa.
  names.add("moa");
  let name = base === "" ? "model" : base;
  for (let number = 2; names.has(name); number++) name = `${base}-${number}`;
  return name;
}

/** Billions of parameters that a model's name tells, such as 7 of `qwen2.5:7b`; 0 where it tells none. */
function billionsOf(model: string): number {
  const found = [...model.matchAll(/(?:^|[^a-z0-9.])(\d+(?:\.\d+)?)\s*([bm])(?![a-z0-9])/gi)].at(-1);
  if (found === undefined) return 0;
  return Number(found[1]) / (found[2]?.toLowerCase() === "m" ? 1000 : 1);
}

function textOf(
  models: readonly StarterModel[],
  proposers: readonly string[],
  aggregator: string,
  { port, apiKeyEnv, schema }: StarterOptions,
): string {
  const json = (value: unknown) => JSON.stringify(value);
  const list = (values: readonly string[]) => `[${values.map(json).join(", ")}]`;
  const key = apiKeyEnv === undefined ? "" : `, "api_key_env": ${json(apiKeyEnv)}`;
  const lines = models.map(({ name, model, engine, workers }) =>
    `    ${json(name)}: { "model": ${json(model)}, "engine": "${engine}", "workers": ${list(workers)}${key} }`
  );
  const agents = proposers.map((model) => `{ "model": ${json(model)} }`).join(", ");
  const alone = models.length === 1;
  return `// Written by "canopy init". "canopy check" says what it would run, "canopy serve" serves it.
// Your editor knows what can stand here by the schema beside this file.
{
  "$schema": ${json(schema)},
  // Runs that have ended are in memory alone: "canopy serve --records runs.sqlite", or
  // "records": { "file": "runs.sqlite" } in here, keeps them when the server stops, without their texts.
  "server": { "port": ${port} },
  // Each can be asked for by its name, too. Several workers of a model share its requests.
  "models": {
${lines.join(",\n")}
  },
  // What clients ask for as "moa".
  "graphs": {
    "moa": {
      "sampling": { "temperature": 0.7, "max_tokens": 1024 },
      "layers": [
        // ${
    alone
      ? "One model answers three times, each time otherwise: another model would help more."
      : "These answer the question, all at once."
  }
        { "agents": [${agents}], "prompt": "propose" },
        // ${alone ? "It" : "The largest of them"} reads the answers and writes the one that the user sees.
        { "agents": [{ "model": ${json(aggregator)} }], "prompt": "synthesize" }
      ]
    }
  }
}
`;
}
