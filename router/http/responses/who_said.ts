import type { AgentRecord, RunRecord } from "../../moa/record/run_record.ts";

/** How much of the agents a summary tells: `concise` who answered, `detailed` what they said, too. */
export type SummaryDetail = "concise" | "detailed";

/**
 * Who said what in a run, as texts of a summary: first one that counts and names the agents, then, where that is asked
 * for, one for each answer. `told` are the agents that an earlier summary has told of; agents that still write are left
 * out.
 */
export function whoSaid(
  { agents, rootSkipped }: Pick<RunRecord, "agents" | "rootSkipped">,
  options: {
    readonly detail: SummaryDetail;
    /** Ids of the agents whose output is the answer itself. */
    readonly answering: ReadonlySet<string>;
    readonly told: Set<string>;
  },
): string[] {
  const { detail, answering, told } = options;
  const ended = agents.filter(({ id, state }) => !answering.has(id) && !told.has(id) && ENDED.has(state));
  if (ended.length === 0) return [];
  for (const { id } of ended) told.add(id);
  const answered = ended.filter(({ state }) => state === "done");
  const roster = [
    `**${answered.length} of ${ended.length} agents answered**\n`,
    ...ended.map((agent) => `- ${nameOf(agent)}: ${became(agent)}`),
    ...(rootSkipped ? ["- the root was not asked: the answer is one of theirs"] : []),
  ].join("\n");
  if (detail === "concise") return [roster];
  return [roster, ...answered.map((agent) => `**${nameOf(agent)}**\n\n${agent.text}`)];
}

const ENDED: ReadonlySet<string> = new Set(["done", "failed", "cancelled"]);

function nameOf({ id, model, fallback }: AgentRecord): string {
  return `${id} (${model}${fallback === undefined ? "" : `, answered by ${fallback.model}`})`;
}

function became({ state, error, finishReason, endedFor, usage }: AgentRecord): string {
  if (state === "failed") return `failed: ${error ?? "no reason is known"}`;
  if (state === "cancelled") return "was not waited for";
  const tokens = usage === undefined ? "" : ` in ${usage.completionTokens} tokens`;
  if (endedFor !== undefined) return `answered${tokens}; ${endedFor}`;
  return `answered${tokens}${finishReason === "length" ? ", cut at its limit" : ""}`;
}
