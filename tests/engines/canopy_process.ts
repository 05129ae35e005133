/** Canopy as these tests see it: what they assume about its configuration and its answers stands here only. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Prompt } from "../../router/engines/engine.ts";
import { startBinary } from "../e2e/binary.ts";
import type { EngineProcess } from "./engine_process.ts";
import { send } from "./http_request.ts";

/** A running `canopy serve`. */
export interface CanopyProcess {
  readonly url: string;
  readonly pid: number;
  /** All that it printed. */
  output(): string;
  stop(): Promise<void>;
}

/** What these tests read of a run record. */
export interface RecordedRun {
  readonly id: string;
  readonly state: "running" | "done" | "failed" | "cancelled";
  readonly usage: RecordedUsage & {
    readonly agents: readonly (RecordedUsage & { readonly agent: string })[];
  };
  /** The root is last. */
  readonly agents: readonly RecordedAgent[];
  readonly events: readonly RecordedEvent[];
}

export interface RecordedUsage {
  readonly calls: number;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cached_tokens: number | null;
}

export interface RecordedEvent {
  readonly at_ms: number;
  readonly type: string;
  readonly agent?: string;
  readonly data?: Readonly<Record<string, unknown>>;
}

export interface RecordedAgent {
  readonly id: string;
  readonly state: string;
  /** The final prompt as sent, null until it was. */
  readonly prompt: Prompt | null;
  readonly text: string;
  readonly started_at_ms: number | null;
  readonly first_token_at_ms: number | null;
  readonly ended_at_ms: number | null;
}

/** The parameters that a test gives to agents, in OpenAI's names. */
export type Sampling = Readonly<Record<string, number | boolean | readonly string[]>>;

/** One agent of a test's graph. */
export interface TestAgent {
  readonly model: string;
  readonly sampling: Sampling;
  /** A key of the configuration's prompts. */
  readonly prompt?: string;
}

/** Layers of clusters of agents; the last layer has one agent. */
export interface TestGraph {
  readonly layers: readonly (readonly (readonly TestAgent[])[])[];
  readonly incrementalPrefill?: "off" | "auto" | "on";
  readonly chunkTokens?: number;
  readonly deadlineMs?: number;
  readonly earlyExit?: Readonly<Record<string, unknown>>;
}

/** The configuration of graphs over engines; each engine serves all of its model names. */
export function configText(
  engines: readonly EngineProcess[],
  graphs: Readonly<Record<string, TestGraph>>,
  prompts: Readonly<Record<string, string>> = {},
): string {
  return JSON.stringify({
    prompts,
    models: Object.fromEntries(
      engines.flatMap(({ engine, worker, modelFolder, modelNames }) =>
        modelNames.map((name) => {
          // SGLang answers to any name, but lists its first one alone, and a worker is taken at its word.
          const model = engine.startsWith("vllm") ? name : modelNames[0];
          return [name, { model, engine, workers: [worker], tokenizer: modelFolder }];
        })
      ),
    ),
    graphs: Object.fromEntries(
      Object.entries(graphs).map(([name, graph]) => [name, {
        layers: graph.layers.map((clusters) => ({ clusters: clusters.map((agents) => ({ agents })) })),
        incremental_prefill: {
          mode: graph.incrementalPrefill ?? "off",
          ...(graph.chunkTokens === undefined ? {} : { chunk_tokens: graph.chunkTokens }),
        },
        early_exit: graph.earlyExit ?? { metric: "none" },
        ...(graph.deadlineMs === undefined ? {} : { deadline_ms: graph.deadlineMs }),
      }]),
    ),
  });
}

/** Writes the configuration to a new folder and serves it on a free port. */
export async function startCanopy(config: string): Promise<CanopyProcess> {
  const folder = await mkdtemp(join(tmpdir(), "canopy-over-engines-"));
  try {
    const file = join(folder, "canopy.jsonc");
    await writeFile(file, config);
    const binary = await startBinary(["serve", file, "--port", "0"], { cwd: folder });
    return {
      url: binary.url,
      pid: binary.process.pid!,
      output: binary.output,
      stop: async () => {
        await binary.stop();
        await rm(folder, { recursive: true, force: true });
      },
    };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** The record of the run that was started last. */
export async function lastRun(canopyUrl: string): Promise<RecordedRun> {
  const list: { data: { id: string }[] } = JSON.parse((await send("GET", `${canopyUrl}/v1/runs`)).text);
  const id = list.data[0]?.id;
  if (id === undefined) throw new Error("no run is recorded");
  return JSON.parse((await send("GET", `${canopyUrl}/v1/runs/${id}`)).text);
}

/** Cancels a run; resolves when every engine was told. */
export async function cancelRun(canopyUrl: string, id: string): Promise<void> {
  const answer = await send("DELETE", `${canopyUrl}/v1/runs/${id}`);
  if (answer.status !== 200) {
    throw new Error(`DELETE /v1/runs/${id} answered ${answer.status}: ${answer.text}`);
  }
}

/** The final prompt of an agent as text. */
export async function promptText({ id, prompt }: RecordedAgent, engine: EngineProcess): Promise<string> {
  if (prompt === null) throw new Error(`agent ${id} has no prompt in the run record`);
  switch (prompt.kind) {
    case "tokens":
      return await engine.detokenize(prompt.ids);
    case "text":
      return prompt.text;
    case "chat":
      return prompt.messages.map(({ content }) => content).join("\n");
  }
}

/** The ids of the agents whose answers the agents of a layered graph read, in order; layer 1 reads nobody. */
export function precursors({ layers }: TestGraph): Map<string, string[]> {
  const reads = new Map<string, string[]>();
  for (const [at, clusters] of layers.entries()) {
    const before = (layers[at - 1] ?? []).map((agents, cluster) =>
      agents.map((_, n) => `l${at}.c${cluster + 1}.a${n + 1}`)
    );
    const readers = clusters.flatMap((agents, cluster) =>
      agents.map((_, n) => `l${at + 1}.c${cluster + 1}.a${n + 1}`)
    );
    // One cluster is read by all agents of the next layer, several are shared out among them.
    for (const [n, id] of readers.entries()) {
      reads.set(id, before.length === 1 ? before[0] ?? [] : before[n] ?? []);
    }
  }
  return reads;
}
