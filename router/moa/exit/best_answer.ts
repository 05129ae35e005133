import type { Sampling } from "../../engines/engine.ts";
import type { AgentCall } from "../agent/agent_call.ts";
import type { AgentNode } from "../graph/graph_types.ts";
import type { PanelAnswer } from "./panel.ts";

/** What agents have come to. */
export interface KnownAnswers {
  /** The one that most agents agree with. */
  readonly agreed: PanelAnswer | undefined;
  readonly calls: readonly AgentCall[];
  /** Keys of models, the largest first. */
  readonly bySize: readonly string[];
}

/**
 * The best answer that a run has so far: the one on which most agree, else the whole text of the agent that has read
 * most layers (of several the largest model's), else the longest one that is being written. Undefined while nobody has
 * said anything.
 */
export function bestAnswer({ agreed, calls, bySize }: KnownAnswers): PanelAnswer | undefined {
  if (agreed !== undefined) return agreed;
  const known = calls.flatMap((call) => {
    const isWhole = call.state === "done";
    if (!isWhole && call.state !== "running") return [];
    const text = isWhole ? call.answer : call.answerSoFar;
    return text === "" ? [] : [{ call, text, isWhole: isWhole && !call.cut }];
  });
  const rank = ({ call: { node }, text, isWhole }: (typeof known)[number]): readonly number[] =>
    isWhole ? [1, depthOf(node), -bySize.indexOf(node.model)] : [0, text.length];
  const [best] = known.sort((a, b) => compared(rank(b), rank(a)));
  if (best === undefined) return undefined;
  const { call, text, isWhole } = best;
  const tokens = call.usage()?.completionTokens ?? 0;
  return { agent: call.node.id, model: call.node.model, text, logprobs: undefined, cut: !isWhole, tokens };
}

/** A text as the client's parameters allow it: up to a stop string, and about as long as `max_tokens`. */
export function withinLimits(
  answer: PanelAnswer,
  { max_tokens: most = Infinity, stop = [] }: Sampling,
): PanelAnswer {
  const ends = stop.map((one) => answer.text.indexOf(one)).filter((at) => at !== -1);
  const stopped = ends.length === 0 ? answer.text : answer.text.slice(0, Math.min(...ends));
  if (answer.tokens <= most) return { ...answer, text: stopped };
  const text = stopped.slice(0, Math.floor(answer.text.length * most / answer.tokens));
  return { ...answer, text, cut: answer.cut || text.length < stopped.length };
}

function depthOf({ reads }: AgentNode): number {
  return Math.max(0, ...reads.flatMap(({ agents }) => agents.map((agent) => 1 + depthOf(agent))));
}

function compared(a: readonly number[], b: readonly number[]): number {
  for (const [index, value] of a.entries()) {
    const other = b[index] ?? 0;
    if (value !== other) return value - other;
  }
  return 0;
}
