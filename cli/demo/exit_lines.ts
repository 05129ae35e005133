import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import type { DemoRun } from "./run.ts";

/** A sentence for each early exit of a run: which cluster went on, with how many answers, and why. */
export function exitLines({ graph, record }: Pick<DemoRun, "graph" | "record">): string[] {
  return record.events.flatMap(({ type, cluster, data }) => {
    if (data?.["exit"] !== true) return [];
    if (type === "consensus_decided") {
      return [
        data["undecided"] === true
          ? "the run ended undecided, with the answer that leads: too few agents gave the same one"
          : "the run ended: enough agents gave the same answer",
      ];
    }
    const members = graph.clusters.find(({ id }) => id === cluster)?.agents ?? [];
    const count = Number(data["completions"]);
    if (type !== "exit_decided" || count >= members.length) return [];
    const left = members.filter(({ id }) =>
      record.agents.find((agent) => agent.id === id)?.state === "cancelled"
    );
    const whom = left.length === 0 ? "" : `, without ${left.map(({ id }) => id).join(" and ")}`;
    return [`${cluster} went on after ${count} of ${members.length} answers${whom}: ${whyOf(data)}`];
  });
}

/** What the metric saw, in words. */
function whyOf(data: JsonObject): string {
  const { metric, answers, q } = data;
  const stated = statedIn(answers);
  if (metric === "random") return "chance";
  if (metric === "q" && typeof q === "number") return `Q is ${q.toFixed(2)}`;
  return stated.length === 0 ? String(metric) : `they say ${stated.join(" and ")}`;
}

function statedIn(answers: Json | undefined): string[] {
  const texts = Array.isArray(answers)
    ? answers.flatMap((answer) =>
      isJsonObject(answer) && typeof answer["text"] === "string" ? [shortAnswer(answer["text"])] : []
    )
    : [];
  return [...new Set(texts)];
}

/** A final answer as it is shown: `option B.` → `B`. */
export function shortAnswer(text: string): string {
  return text.replace(/^option /i, "").replace(/\.$/, "");
}
