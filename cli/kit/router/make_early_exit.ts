import { logger } from "../../../base/log.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import { expandGraph } from "../../../cfgs/topology/expand_graph.ts";
import type { Io } from "../io.ts";
import type { StartScorerThread } from "../../../scorer/thread/worker_thread.ts";
import { LazyScorer } from "./lazy_scorer.ts";
import type { EarlyExitServices } from "../../../router/moa/exit/exit_policies.ts";
import { createScorer } from "../../../scorer/create.ts";
import { ExitAudit } from "../../../scorer/audit/exit_audit.ts";
import type { SharedAudits } from "../../../scorer/audit/shared_audits.ts";
import { exitPolicyOf, runConsensusOf } from "../../../scorer/exit_policy_of.ts";
import { verdictPrompt, yesProbability } from "../../../scorer/policy/verdict_prompt.ts";
import type { Scorer } from "../../../scorer/scorer.ts";

/** What a scorer needs of the outside. */
export type ScorerMeans = Pick<Io, "clock" | "env" | "transport" | "stop">;

/** A router's part where several threads serve. */
export interface EarlyExitOptions {
  /** Starts the thread of the scorer that all of them use. */
  readonly start?: StartScorerThread | undefined;
  /** The audits of exits, which hear of those of other threads. */
  readonly audits?: SharedAudits | undefined;
  /** True in the thread that leads, which runs nothing. */
  readonly leads?: boolean | undefined;
}

/** Early exit of a router in this process; close it after the router. */
export interface EarlyExit {
  readonly services: EarlyExitServices;
  close(): Promise<void>;
}

/**
 * The scorer of a configuration and the policies of early exit. The scorer is made now if a graph compares answers,
 * else when a request does.
 */
export function makeEarlyExit(config: Config, io: ScorerMeans, options: EarlyExitOptions = {}): EarlyExit {
  const make = () => makeScorer(config.scorer, io, options.start);
  const scorer = new LazyScorer(make, { clock: io.clock, log: logger("scorer") });
  const services: EarlyExitServices = {
    scorer,
    verdict: { prompt: verdictPrompt, yes: yesProbability },
    policyOf: exitPolicyOf,
    consensusOf: runConsensusOf,
    auditOf: (settings, graph) => options.audits?.make(settings, graph) ?? new ExitAudit(settings),
  };
  if (options.leads !== true && comparesAnswers(config, services)) scorer.start();
  return { services, close: () => scorer.close() };
}

/** Makes the scorer of a configuration. Throws as `createScorer` does. */
export function makeScorer(
  settings: Config["scorer"],
  { clock, env, transport, stop }: ScorerMeans,
  start?: StartScorerThread,
): Promise<Scorer> {
  return createScorer(settings, { clock, env, transport, signal: stop, log: logger("scorer"), start });
}

function comparesAnswers(config: Config, { policyOf }: EarlyExitServices): boolean {
  return Object.values(config.graphs).some((graph) => {
    const { graph: expanded } = expandGraph(graph, []);
    return expanded?.clusters.some(({ earlyExit, agents }) =>
      agents.length > 1 && policyOf(earlyExit)?.needs.similarity !== undefined
    );
  });
}
