import { messageOf } from "../../../base/errors.ts";
import type { Span, Spans } from "../../tracing/spans.ts";
import type { AgentRecord, RunRecord } from "./run_record.ts";

/** A run that a span is begun for. */
export interface SpannedRun {
  readonly id: string;
  readonly graph: string;
  /** Of the client's request. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Begins the span of a run; names are those of OpenTelemetry's conventions for generative AI. */
export function beginRunSpan(spans: Spans, { id, graph, headers }: SpannedRun): Span {
  return spans.begin({
    name: `invoke_agent ${graph}`,
    kind: "internal",
    parent: headers,
    attributes: {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": graph,
      "gen_ai.agent.id": id,
    },
  });
}

/** Ends the span of a run that has come to its result. */
export function endRunSpan(span: Span, { state }: Pick<RunRecord, "state">, error: Error | undefined): void {
  span.set({ "canopy.state": state });
  span.end(error === undefined ? undefined : messageOf(error));
}

/** Begins the span of one agent's call. */
export function beginAgentSpan(
  spans: Spans | undefined,
  { id, model }: Pick<AgentRecord, "id" | "model">,
  headers: Readonly<Record<string, string>>,
): Span | undefined {
  return spans?.begin({
    name: `chat ${model}`,
    kind: "internal",
    parent: headers,
    attributes: {
      "gen_ai.operation.name": "chat",
      "gen_ai.request.model": model,
      "gen_ai.agent.name": id,
    },
  });
}

/** Ends the span of an agent's call: a call that was cancelled because others made it needless is no error. */
export function endAgentSpan(span: Span, record: AgentRecord): void {
  const { state, finishReason, usage, error, worker, resumes, restarts } = record;
  span.set({
    "canopy.state": state,
    "canopy.worker": worker,
    "canopy.attempts": usage?.calls,
    "canopy.resumes": resumes,
    "canopy.restarts": restarts,
    "gen_ai.response.finish_reasons": finishReason === undefined ? undefined : [finishReason],
    "gen_ai.usage.input_tokens": usage?.promptTokens,
    "gen_ai.usage.output_tokens": usage?.completionTokens,
    "gen_ai.usage.cache_read.input_tokens": usage?.cachedTokens,
    ...(state === "cancelled" ? { "canopy.cancelled_because": error } : {}),
  });
  span.end(state === "failed" ? error : undefined);
}
