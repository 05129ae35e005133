import { z } from "zod";
import { type ConfigFinding, explain } from "../schema/explain.ts";
import { toJson } from "../source/source.ts";
import { parseJsonc } from "../source/source_jsonc.ts";

const portsSchema = z.record(z.string().min(1), z.int().min(1).max(65535));

/** Reads the text of MoA-vllm's `model2port.json`. */
export function readModelPorts(
  text: string,
): { readonly ports: ReadonlyMap<string, number> | undefined; readonly findings: readonly ConfigFinding[] } {
  const { root, problems } = parseJsonc(text);
  if (root === undefined) {
    const findings = problems.map(({ message }): ConfigFinding => ({
      severity: "error",
      path: [],
      atKey: false,
      value: undefined,
      message,
    }));
    return { ports: undefined, findings };
  }
  const parsed = portsSchema.safeParse(toJson(root));
  return parsed.success
    ? { ports: new Map(Object.entries(parsed.data)), findings: [] }
    : { ports: undefined, findings: explain(portsSchema, toJson(root)) };
}
