import type { Clock } from "../../../base/clock.ts";
import type { Json } from "../../../base/json.ts";
import type { ArchivedRun } from "../../archive/archived_run.ts";
import { traceEventBody } from "../openai/run_body.ts";
import type { AgentRecord, RunRecord } from "../../moa/record/run_record.ts";
import { agentBody, factsBody, summaryBody } from "./run_bodies.ts";
import { dataWithoutTexts } from "./without_texts.ts";

/** Options of `archivedRun`. */
export interface ArchivingOptions {
  /** True to keep prompts and answers. */
  readonly texts: boolean;
  readonly clock: Clock;
}

/**
 * An ended run as the archive keeps it: what `GET /v1/runs` and `GET /v1/runs/ID` say of it. It is written down in
 * pieces, with a turn of the event loop between two agents whose texts may be long.
 */
export async function archivedRun(
  record: RunRecord,
  { texts, clock }: ArchivingOptions,
): Promise<ArchivedRun> {
  const kept = texts ? record : withoutTexts(record);
  const agents: string[] = [];
  for (const agent of kept.agents) {
    agents.push(JSON.stringify(agentBody(agent)));
    if (texts) await clock.sleep(0);
  }
  const facts = JSON.stringify({ ...factsBody(kept), ...(texts ? {} : { texts_kept: false }) });
  const events = JSON.stringify(kept.events.map((event): Json => traceEventBody(event)));
  return {
    id: record.id,
    owner: record.owner,
    requestId: record.requestId,
    graph: record.graph,
    state: record.state,
    endedAtUnixMs: record.startedAtUnixMs + (record.durationMs ?? 0),
    summary: JSON.stringify(summaryBody(record)),
    record: `${facts.slice(0, -1)},"agents":[${agents.join(",")}],"events":${events}}`,
  };
}

/** All figures of a run, without what was asked and said. */
function withoutTexts(record: RunRecord): RunRecord {
  const { agents, events, rewrite } = record;
  return {
    ...record,
    request: undefined,
    agents: agents.map(agentWithoutTexts),
    rewrite: rewrite === undefined ? undefined : { ...rewrite, agent: agentWithoutTexts(rewrite.agent) },
    events: events.map((event) =>
      event.data === undefined ? event : { ...event, data: dataWithoutTexts(event.data) }
    ),
  };
}

function agentWithoutTexts(agent: AgentRecord): AgentRecord {
  return { ...agent, prompt: undefined, text: "", reasoning: "", logprobs: undefined };
}
