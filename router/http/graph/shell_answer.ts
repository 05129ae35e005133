import type { Json, JsonObject } from "../../../base/json.ts";
import type { AgentEvent } from "../../moa/agent/agent_events.ts";
import type { AgentRecord } from "../../moa/record/run_record.ts";

/** One answer of a batch, as SGLang's `/generate` gives it. */
export function shellAnswer(agent: AgentRecord): JsonObject {
  const { usage } = agent;
  return {
    text: agent.text,
    meta_info: {
      id: agent.id,
      finish_reason: finishReason(agent),
      prompt_tokens: usage?.promptTokens ?? 0,
      completion_tokens: usage?.completionTokens ?? 0,
      cached_tokens: usage?.cachedTokens ?? 0,
      e2e_latency: (agent.endedAtMs ?? 0) / 1000,
    },
  };
}

/** Turns agents' events into those of a streamed batch: each holds all the text so far. */
export class ShellStream {
  readonly #indices: ReadonlyMap<string, number>;
  readonly #texts = new Map<string, string>();
  readonly #isList: boolean;

  /** `names`: of the batch, in its order. */
  constructor(names: readonly string[], isList: boolean) {
    this.#indices = new Map(names.map((name, index) => [name, index]));
    this.#isList = isList;
  }

  chunk(event: AgentEvent): JsonObject {
    const { agent } = event;
    const index = this.#isList ? { index: this.#indices.get(agent) ?? 0 } : {};
    if (event.type === "end") return { ...index, ...shellAnswer(event.record) };
    const text = (this.#texts.get(agent) ?? "") + event.text;
    this.#texts.set(agent, text);
    return { ...index, text, meta_info: { id: agent, finish_reason: null } };
  }
}

function finishReason({ state, finishReason, error, usage }: AgentRecord): Json {
  if (state !== "done") return { type: "abort", message: error ?? "It was not run", status_code: 502 };
  if (finishReason === "length") return { type: "length", length: usage?.completionTokens ?? 0 };
  return { type: "stop", matched: null };
}
