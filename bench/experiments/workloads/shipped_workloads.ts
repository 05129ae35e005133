import { parse } from "jsonc-parser";
import { isJsonObject } from "../../../base/json.ts";
import chat from "./chat.jsonc" with { type: "text" };
import documents from "./documents.jsonc" with { type: "text" };
import maths from "./maths.jsonc" with { type: "text" };
import paper from "./paper.jsonc" with { type: "text" };
import reasoning from "./reasoning.jsonc" with { type: "text" };
import { type BenchWorkload, readWorkload } from "./workload_file.ts";

const TEXTS = { chat, maths, documents, reasoning, paper } as const satisfies Readonly<
  Record<string, string>
>;

export type WorkloadName = keyof typeof TEXTS;

/** The names of the workloads that come with Canopy. */
export const WORKLOAD_NAMES = [
  "chat",
  "maths",
  "documents",
  "reasoning",
  "paper",
] as const satisfies readonly WorkloadName[];

/** True for the name of a workload that comes with Canopy. */
export function isWorkloadName(name: string): name is WorkloadName {
  return Object.hasOwn(TEXTS, name);
}

/** The file of a workload that comes with Canopy. */
export function workloadText(name: WorkloadName): string {
  return TEXTS[name];
}

/** A workload that comes with Canopy. */
export function shippedWorkload(name: WorkloadName): BenchWorkload {
  return readWorkload(TEXTS[name], { name, path: `${name}.jsonc` });
}

/** One line about a workload that comes with Canopy; read without the checks of `shippedWorkload`. */
export function workloadSummary(name: WorkloadName): string {
  const value: unknown = parse(TEXTS[name]);
  return isJsonObject(value) && typeof value["summary"] === "string" ? value["summary"] : "";
}
