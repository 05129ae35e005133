import type { Clock } from "../../base/clock.ts";
import { isJsonObject } from "../../base/json.ts";
import { Random } from "../../base/random.ts";
import { readText } from "../../base/read_body.ts";
import type { Transport } from "../../base/transport.ts";
import type { Graph } from "../../router/moa/graph/graph_types.ts";
import type { RunRecord } from "../../router/moa/record/run_record.ts";
import type { Router } from "../../router/router.ts";

/**
 * The modes of the paper as graphs of a configuration. `models` and `maxTokens` are taken in turn; the root has the
 * last of each.
 */
export function modeGraphs(
  models: readonly string[],
  maxTokens: readonly number[],
  sampling: Readonly<Record<string, unknown>>,
  earlyExit: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const agents = (count: number, first = 0) =>
    Array.from({ length: count }, (_, index) => ({
      model: models[index % models.length],
      sampling: { seed: 100 + first + index, max_tokens: maxTokens[index % maxTokens.length] },
    }));
  const root = {
    agents: [{ model: models.at(-1), sampling: { max_tokens: maxTokens.at(-1) } }],
    prompt: "synthesize",
  };
  const tree = {
    sampling,
    layers: [
      { clusters: [0, 3, 6].map((first) => ({ agents: agents(3, first) })), prompt: "propose" },
      { agents: agents(3), prompt: "aggregate" },
      root,
    ],
  };
  const dense = [{ agents: agents(9), prompt: "propose" }, { agents: agents(9), prompt: "aggregate" }, root];
  return {
    "moa-1": { sampling, layers: dense },
    "moa-2": tree,
    "moa-3": { ...tree, incremental_prefill: { mode: "on" } },
    "moa-4": { ...tree, incremental_prefill: { mode: "on" }, early_exit: earlyExit },
  };
}

/** The modes in the order in which they are measured and shown. */
export const MODE_NAMES: Readonly<Record<string, string>> = {
  "moa-1": "#1 all-to-all 9-9-1",
  "moa-2": "#2 tree 9-3-1",
  "moa-3": "#3 tree, incremental prefill",
  "moa-4": "#4 tree, incremental prefill, early exit",
};

/** One question in one mode, times in ms. */
export interface ModeRun {
  readonly endToEndMs: number;
  /**
   * From the last token that an agent waits for to its own first one: of the aggregators the median, and of the root.
   */
  readonly aggregatorGapMs: number;
  readonly rootGapMs: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

/** Asks over HTTP, and reads the run's record. Throws when the answer is an error. */
export async function askMode(
  where: {
    readonly router: Router;
    readonly url: string;
    readonly transport: Transport;
    readonly clock: Clock;
  },
  model: string,
  question: string,
  signal: AbortSignal,
): Promise<ModeRun> {
  const { router, url, transport, clock } = where;
  const startMs = clock.now();
  const response = await transport.send({
    method: "POST",
    url: `${url}/v1/chat/completions`,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: question }] }),
  }, signal);
  const text = await readText(response.body, Infinity, "its answer");
  const endToEndMs = clock.now() - startMs;
  const body: unknown = JSON.parse(text);
  if (response.status !== 200 || !isJsonObject(body)) throw new Error(`${model} was not answered: ${text}`);
  const { moa } = router.services;
  const record = moa.list().find((run) => run.graph === model);
  const graph = moa.graphs.get(model);
  if (record === undefined || graph === undefined) throw new Error(`The run of ${model} cannot be found`);
  const gaps = handOverMs(graph, record);
  const aggregators = [...gaps].filter(([id]) => id !== graph.root.id).map(([, ms]) => ms).sort((a, b) =>
    a - b
  );
  return {
    endToEndMs,
    aggregatorGapMs: aggregators[aggregators.length >> 1] ?? NaN,
    rootGapMs: gaps.get(graph.root.id) ?? NaN,
    promptTokens: record.usage.promptTokens,
    cachedTokens: record.usage.cachedTokens ?? 0,
  };
}

/** From the end of the last precursor to the first token of each agent that reads some, in ms. */
export function handOverMs(graph: Graph, record: RunRecord): Map<string, number> {
  const byId = new Map(record.agents.map((agent) => [agent.id, agent]));
  const gaps = new Map<string, number>();
  for (const node of graph.agents) {
    const firstMs = byId.get(node.id)?.firstTokenAtMs;
    const endsMs = node.reads.flatMap(({ agents }) =>
      agents.flatMap(({ id }) => byId.get(id)?.endedAtMs ?? [])
    );
    if (firstMs !== undefined && endsMs.length > 0) gaps.set(node.id, firstMs - Math.max(...endsMs));
  }
  return gaps;
}

/** A question of random words, which no cache has seen. */
export function newQuestion(words: number, seed: string): string {
  const random = new Random(seed);
  const known = [
    "why",
    "does",
    "the",
    "answer",
    "to",
    "this",
    "question",
    "change",
    "when",
    "water",
    "light",
    "time",
  ];
  return `${random.hex(8)}: ${Array.from({ length: words }, () => random.pick(known)).join(" ")}?`;
}
