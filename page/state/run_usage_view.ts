import { listField, numberAt, textField } from "./json_fields.ts";

/** The work of an agent or a model in a run; undefined for what no engine has told. */
export interface UsageRow {
  /** Of the agent, or of the model. */
  readonly name: string;
  /** The model that answered; empty in a row of a model. */
  readonly model: string;
  readonly calls: number | undefined;
  readonly promptTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  readonly warmTokens: number | undefined;
  readonly completionTokens: number | undefined;
  readonly wastedTokens: number | undefined;
  /** An estimate. */
  readonly savedTokens: number | undefined;
  /** Undefined where the model has no price. */
  readonly cost: number | undefined;
}

/** The rows of a run's `usage`: by model, and by agent. */
export function usageRows(
  usage: unknown,
): { readonly models: readonly UsageRow[]; readonly agents: readonly UsageRow[] } {
  return {
    models: listField(usage, "models").map((one) => usageRow(textField(one, "model"), "", one)),
    agents: listField(usage, "agents").map((one) =>
      usageRow(textField(one, "agent"), textField(one, "model"), one)
    ),
  };
}

/** The row of one agent; undefined while its usage is not known. */
export function usageOfAgent(usage: unknown, agent: string): UsageRow | undefined {
  return usageRows(usage).agents.find(({ name }) => name === agent);
}

function usageRow(name: string, model: string, counts: unknown): UsageRow {
  return {
    name,
    model,
    calls: numberAt(counts, "calls"),
    promptTokens: numberAt(counts, "prompt_tokens"),
    cachedTokens: numberAt(counts, "cached_tokens"),
    warmTokens: numberAt(counts, "warm_tokens"),
    completionTokens: numberAt(counts, "completion_tokens"),
    wastedTokens: numberAt(counts, "wasted_tokens"),
    savedTokens: numberAt(counts, "saved_tokens_estimate"),
    cost: numberAt(counts, "cost"),
  };
}
