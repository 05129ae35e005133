import { isJsonObject } from "../../base/json.ts";
import type { Gpu } from "./gpu.ts";

/** What is asked of `rocm-smi`. */
export const ROCM_ARGUMENTS = [
  "--showproductname",
  "--showmeminfo",
  "vram",
  "--showuniqueid",
  "--showdriverversion",
  "--json",
] as const;

/** Reads the JSON of rocm-smi; undefined when the text has no card. The spelling of keys differs among versions. */
export function parseRocm(text: string): { gpus: readonly Gpu[]; driver: string | undefined } | undefined {
  // Warnings come before the JSON.
  const start = text.indexOf("{");
  if (start < 0) return undefined;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text.slice(start));
  } catch {
    return undefined;
  }
  if (!isJsonObject(parsed)) return undefined;
  const gpus: Gpu[] = [];
  let driver: string | undefined;
  for (const [key, value] of Object.entries(parsed)) {
    if (!isJsonObject(value)) continue;
    const fields = new Map(Object.entries(value).map(([name, field]) => [name.toLowerCase(), String(field)]));
    driver ??= fields.get("driver version");
    const card = /^card(\d+)$/.exec(key);
    const total = Number(fields.get("vram total memory (b)"));
    if (card === null || !Number.isFinite(total)) continue;
    gpus.push({
      id: String(card[1]),
      index: Number(card[1]),
      uuid: fields.get("unique id") ?? key,
      name: fields.get("card series") ?? fields.get("card model") ?? "AMD GPU",
      vendor: "amd",
      totalMiB: Math.floor(total / 2 ** 20),
      usedMiB: Math.ceil(Number(fields.get("vram total used memory (b)") ?? 0) / 2 ** 20),
      computeCapability: fields.get("gfx version"),
      numaNode: undefined,
    });
  }
  return gpus.length === 0 ? undefined : { gpus: gpus.sort((a, b) => a.index - b.index), driver };
}
