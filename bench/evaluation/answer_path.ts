import { meanOf, sumOf } from "../statistics/statistics.ts";
import { type AnswerRun, isDone, type RunAgent } from "./answer_run.ts";

/** A link of the chain of agents that an answer waited for; times in ms. */
export interface PathLink {
  /** From 1: one more than the highest layer of those that it reads. */
  readonly layer: number;
  readonly agent: string;
  readonly model: string;
  /** From the end of the agent before it in the chain, or the run's start, to its first token. */
  readonly exposedMs: number;
  /** From then to its end. */
  readonly writingMs: number;
  /** From the run's start to its end. */
  readonly endedMs: number;
}

/** Means over answers of what their paths spend in a layer, and of its agents; times in ms. */
export interface LayerFigures {
  readonly layer: number;
  readonly agents: number;
  /** Of these, the ones whose text was used. */
  readonly used: number;
  readonly exposedMs: number;
  readonly writingMs: number;
  /** Of the answers whose path goes through this layer. */
  readonly endedMs: number;
}

interface EndedAgent extends RunAgent {
  readonly firstTokenMs: number;
  readonly endedMs: number;
}

/**
 * The critical path of a run, first agent first: from the agent whose end was the answer back to the one that ended last of
 * those that it read, and so on. What its links spend adds up to the last one's end.
 */
export function answerPath({ agents }: AnswerRun): PathLink[] {
  const layers = agentLayers(agents);
  const ended = agents.filter(hasEnded);
  const links: PathLink[] = [];
  let at = lastOf(ended);
  while (at !== undefined) {
    const own: EndedAgent = at;
    const before = lastOf(
      ended.filter(({ id, endedMs }) => own.reads.includes(id) && endedMs <= own.endedMs),
    );
    const readyMs = before?.endedMs ?? 0;
    // One that was begun before all that it reads was there writes only from then on.
    const firstMs = Math.max(readyMs, own.firstTokenMs);
    links.unshift({
      layer: layers.get(own.id) ?? 1,
      agent: own.id,
      model: own.model,
      exposedMs: firstMs - readyMs,
      writingMs: own.endedMs - firstMs,
      endedMs: own.endedMs,
    });
    at = before;
  }
  return links;
}

/** The layer of each agent, by its id. */
export function agentLayers(agents: readonly RunAgent[]): ReadonlyMap<string, number> {
  const layers = new Map<string, number>();
  const byId = new Map(agents.map((agent) => [agent.id, agent]));
  const layerOf = (agent: RunAgent): number => {
    const known = layers.get(agent.id);
    if (known !== undefined) return known;
    // A circle, which no router makes, would have no end.
    layers.set(agent.id, 1);
    const read = agent.reads.flatMap((id) => byId.get(id) ?? []);
    const layer = 1 + Math.max(0, ...read.map(layerOf));
    layers.set(agent.id, layer);
    return layer;
  };
  for (const agent of agents) layerOf(agent);
  return layers;
}

/** Figures of each layer over several runs; a path without a layer counts as spending nothing in it. */
export function layerFigures(runs: readonly AnswerRun[]): LayerFigures[] {
  const all = runs.map((run) => ({ path: answerPath(run), layers: agentLayers(run.agents), run }));
  const last = Math.max(0, ...all.flatMap(({ layers }) => [...layers.values()]));
  return Array.from({ length: last }, (_, index) => {
    const layer = index + 1;
    const links = all.map(({ path }) => path.filter((link) => link.layer === layer));
    const count = (isCounted: (agent: RunAgent) => boolean) =>
      meanOf(
        all.map(({ run, layers }) =>
          run.agents.filter((agent) => layers.get(agent.id) === layer && isCounted(agent)).length
        ),
      );
    const mean = (of: (link: PathLink) => number) => meanOf(links.map((own) => sumOf(own.map(of))));
    return {
      layer,
      agents: count(() => true),
      used: count(isDone),
      exposedMs: mean(({ exposedMs }) => exposedMs),
      writingMs: mean(({ writingMs }) => writingMs),
      endedMs: meanOf(links.flatMap((own) => own.map(({ endedMs }) => endedMs))),
    };
  });
}

/** Of each model's agents the share whose text was used, over several runs (the paper's Fig. 4(i)). */
export function usedShares(runs: readonly AnswerRun[]): ReadonlyMap<string, number> {
  const agents = runs.flatMap((run) => run.agents);
  return new Map(
    [...Map.groupBy(agents, ({ model }) => model)].map((
      [model, own],
    ) => [model, own.filter(isDone).length / own.length]),
  );
}

function hasEnded(agent: RunAgent): agent is EndedAgent {
  return isDone(agent) && agent.firstTokenMs !== null && agent.endedMs !== null;
}

function lastOf(agents: readonly EndedAgent[]): EndedAgent | undefined {
  return agents.reduce<EndedAgent | undefined>(
    (last, one) => last === undefined || one.endedMs >= last.endedMs ? one : last,
    undefined,
  );
}
