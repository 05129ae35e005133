import { z } from "zod";
import { stripReasoning } from "../../router/moa/prompt/answer.ts";

const moment = z.number().nullish().transform((value) => value ?? undefined);
const count = z.number().nonnegative().nullish().transform((value) => value ?? 0);

/** The record of a run, as `canopy runs export` writes it: what a replay needs of it. */
const recordSchema = z.looseObject({
  object: z.literal("run"),
  id: z.string(),
  graph: z.string().default(""),
  state: z.string(),
  created: z.number(),
  /** Absent in records of an older Canopy. */
  created_ms: z.number().optional(),
  texts_kept: z.boolean().default(true),
  root_skipped: z.boolean().default(false),
  rewrite: z.unknown().optional(),
  usage: z.looseObject({
    agents: z.array(z.looseObject({
      agent: z.string(),
      calls: count,
      prompt_tokens: count,
      completion_tokens: count,
      cached_tokens: count,
      reasoning_tokens: count,
      warm_tokens: count,
    })).default([]),
  }),
  agents: z.array(z.looseObject({
    id: z.string(),
    model: z.string(),
    state: z.string(),
    reads: z.array(z.string()).default([]),
    worker: z.string().nullish(),
    prompt: z.unknown().optional(),
    text: z.string().default(""),
    reasoning: z.string().default(""),
    first_token_at_ms: moment,
    ended_at_ms: moment,
    fallback: z.looseObject({ model: z.string() }).optional(),
    steps: z.array(z.unknown()).optional(),
  })).min(1),
  events: z.array(z.looseObject({ type: z.string() })).default([]),
});

/** The event of a cluster that goes on: without the agents that it no longer waits for, and answers that it does not keep. */
const closedSchema = z.looseObject({
  type: z.literal("cluster_closed"),
  cluster: z.string(),
  data: z.looseObject({ dropped: z.array(z.string()).default([]), unread: z.array(z.string()).default([]) }),
});

type RecordLine = z.infer<typeof recordSchema>;

/** A prompt as it was recorded, to be compared from its beginning. */
export type RecordedPrompt = string | readonly number[];

/** An agent of a recorded run that is simulated. */
export interface ReplayAgent {
  readonly id: string;
  /** The model that answered. */
  readonly model: string;
  /** Ids of those that it reads, of the simulated ones. */
  readonly reads: readonly string[];
  readonly promptTokens: number;
  /** Reasoning included. */
  readonly completionTokens: number;
  /** Of the completion tokens those that its successors do not read. */
  readonly reasoningTokens: number;
  /** Undefined where texts were not kept. */
  readonly prompt: RecordedPrompt | undefined;
}

/** A recorded run that is simulated; times in ms. */
export interface ReplayRun {
  readonly id: string;
  readonly graph: string;
  /** From the first run's arrival; to a second where a record is of an older Canopy. */
  readonly arrivalMs: number;
  /** The root is last; agents that did not answer, or whom nobody read, are left out. */
  readonly agents: readonly ReplayAgent[];
  /** It had warms. */
  readonly isIncremental: boolean;
  readonly e2eMs: number;
  readonly ttftMs: number | undefined;
  readonly cachedTokens: number;
}

/** Recorded runs, and what their records lack. */
export interface ReplayRuns {
  /** In the order of their arrival. */
  readonly runs: readonly ReplayRun[];
  /** Counts of the runs that cannot be simulated, by the reason as the end of a sentence. */
  readonly left: ReadonlyMap<string, number>;
  /** Agents of simulated runs that failed, were ended early, or were read by nobody. */
  readonly agentsLeft: number;
  /** Agents whose tokens are those of several calls. */
  readonly agentsRepeated: number;
  readonly runsWithoutTexts: number;
  /** Agents that have reasoned without a count of tokens: their share of the text is taken. */
  readonly reasoningByText: number;
  /** Numbers of servers that answered, by model. */
  readonly servers: ReadonlyMap<string, number>;
}

/** Events of runs whose prompts were read ahead, or would have been if their servers had had time for it. */
const WARMING = new Set(["warm_sent", "warm_held", "warm_stopped"]);

/** Reads a line of `canopy runs export`; undefined for what is none. */
export function readRecordedGraph(value: unknown): RecordLine | undefined {
  return recordSchema.safeParse(value).data;
}

/** The runs to simulate, of records in the order of a file, which has the newest run first. */
export function replayRunsOf(records: readonly RecordLine[]): ReplayRuns {
  const books = {
    left: new Map<string, number>(),
    agentsLeft: 0,
    agentsRepeated: 0,
    runsWithoutTexts: 0,
    reasoningByText: 0,
  };
  const workers = new Map<string, Set<string>>();
  const ordered = [...records].reverse().sort((a, b) => createdMs(a) - createdMs(b));
  const usable = ordered.flatMap((record) => {
    const agents = simulatedAgents(record);
    if (typeof agents !== "string") return [{ record, agents }];
    books.left.set(agents, (books.left.get(agents) ?? 0) + 1);
    return [];
  });
  const firstMs = usable[0] === undefined ? 0 : createdMs(usable[0].record);
  const runs = usable.map(({ record, agents }): ReplayRun => {
    const usage = usageOf(record);
    books.agentsLeft += record.agents.length - agents.length;
    if (!record.texts_kept) books.runsWithoutTexts++;
    for (const { id, model, worker, text, reasoning } of agents) {
      const { calls = 1, reasoning_tokens = 0 } = usage.get(id) ?? {};
      if (calls > 1) books.agentsRepeated++;
      if (reasoning_tokens === 0 && reasoningShare(text, reasoning) > 0) books.reasoningByText++;
      if (typeof worker === "string") workers.set(model, (workers.get(model) ?? new Set()).add(worker));
    }
    const root = agents.at(-1)!;
    return {
      id: record.id,
      graph: record.graph,
      arrivalMs: createdMs(record) - firstMs,
      agents: agents.map((agent) => replayAgent(agent, agents, record)),
      isIncremental: record.events.some(({ type }) => WARMING.has(type)) ||
        record.usage.agents.some(({ warm_tokens }) => warm_tokens > 0),
      e2eMs: root.ended_at_ms ?? NaN,
      ttftMs: root.first_token_at_ms,
      cachedTokens: agents.reduce((sum, { id }) => sum + (usage.get(id)?.cached_tokens ?? 0), 0),
    };
  });
  return { ...books, runs, servers: new Map([...workers].map(([model, { size }]) => [model, size])) };
}

/** Unix time of a run's arrival in ms. */
function createdMs({ created, created_ms: exact }: RecordLine): number {
  return exact ?? 1000 * created;
}

/** Share of an output's characters that are reasoning, 0 where its text was not kept. */
function reasoningShare(text: string, reasoning: string): number {
  const inText = text.includes("</think>") ? text.length - stripReasoning(text).length : 0;
  const all = text.length + reasoning.length;
  return text === "" ? 0 : (reasoning.length + inText) / all;
}

/**
 * The agents of a run that its root has read, directly or not, and itself, each with those that it has read; the reason
 * where it cannot be simulated.
 */
function simulatedAgents(record: RecordLine): RecordLine["agents"] | string {
  const { agents, state } = record;
  const root = agents.at(-1)!;
  if (state !== "done") return "did not end well";
  if (record.root_skipped || root.state !== "done") return "ended without its last agent";
  if (record.rewrite !== undefined && record.rewrite !== null) return "was written up by another model";
  const read = new Set(agents.flatMap(({ reads }) => reads));
  if (agents.some(({ id }) => id !== root.id && !read.has(id))) return "has several last agents";
  if (agents.some(({ steps = [] }) => steps.length > 0)) return "had a staircase";
  const reached = new Set([root.id]);
  const heard = withReadAnswers(record);
  // Each agent stands behind all that it reads.
  for (const { id, reads } of [...heard].reverse()) {
    if (reached.has(id)) { for (const one of reads) reached.add(one); }
  }
  const done = heard.filter(({ id, state }) => state === "done" && reached.has(id));
  const usage = usageOf(record);
  const isCounted = ({ id }: { readonly id: string }) => {
    const own = usage.get(id);
    return own !== undefined && own.completion_tokens > 0 && own.prompt_tokens > 0;
  };
  if (!done.every(isCounted)) return "has agents without token counts";
  return root.ended_at_ms === undefined ? "has no times" : done;
}

/** The agents of a run without those in their `reads` that their clusters have closed without. */
function withReadAnswers({ agents, events }: RecordLine): RecordLine["agents"] {
  const closed = events.flatMap((event) => closedSchema.safeParse(event).data ?? []);
  return agents.map((agent) => {
    // A cluster of layers is read by all that read its members, one of a graph that names who reads whom by its reader.
    const own = closed.filter(({ cluster }) =>
      !cluster.endsWith(".reads") || cluster === `${agent.id}.reads`
    );
    const unread = new Set(own.flatMap(({ data }) => [...data.dropped, ...data.unread]));
    return { ...agent, reads: agent.reads.filter((id) => !unread.has(id)) };
  });
}

function usageOf(record: RecordLine): ReadonlyMap<string, RecordLine["usage"]["agents"][number]> {
  return new Map(record.usage.agents.map((one) => [one.agent, one]));
}

function replayAgent(
  { id, model, reads, fallback, prompt, text, reasoning }: RecordLine["agents"][number],
  simulated: RecordLine["agents"],
  record: RecordLine,
): ReplayAgent {
  const usage = usageOf(record).get(id)!;
  const ids = new Set(simulated.map((agent) => agent.id));
  const reasoned = usage.reasoning_tokens > 0
    ? usage.reasoning_tokens
    : usage.completion_tokens * reasoningShare(text, reasoning);
  return {
    id,
    model: fallback?.model ?? model,
    reads: reads.filter((one) => ids.has(one)),
    promptTokens: Math.round(usage.prompt_tokens / Math.max(1, usage.calls)),
    completionTokens: usage.completion_tokens,
    reasoningTokens: Math.min(usage.completion_tokens, Math.round(reasoned)),
    prompt: record.texts_kept ? promptOf(prompt) : undefined,
  };
}

const promptSchema = z.union([
  z.looseObject({ kind: z.literal("tokens"), ids: z.array(z.number()) }).transform(({ ids }) => ids),
  z.looseObject({ kind: z.literal("text"), text: z.string() }).transform(({ text }) => text),
  z.looseObject({ kind: z.literal("chat"), messages: z.array(z.unknown()) })
    .transform(({ messages }) => JSON.stringify(messages)),
]);

function promptOf(prompt: unknown): RecordedPrompt | undefined {
  return promptSchema.safeParse(prompt).data;
}
