import { isJsonObject, type JsonObject } from "../../base/json.ts";
import type { Gpu, ShownGpus } from "./gpu.ts";

/** True for any two Instinct cards of a host: xGMI joins them. */
const linked = (a: number, b: number) => a !== b;

/** Arguments of `rocm-smi`. */
export const ROCM_ARGUMENTS = [
  "--showproductname",
  "--showmeminfo",
  "vram",
  "--showuniqueid",
  "--showdriverversion",
  "--json",
] as const;

/** Reads the JSON of rocm-smi; undefined when the text has no card. The spelling of keys differs among versions. */
export function parseRocm(text: string): ShownGpus | undefined {
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
  return gpus.length === 0 ? undefined : { gpus: gpus.sort((a, b) => a.index - b.index), driver, linked };
}

/** Arguments of two calls of `amd-smi`, the successor of `rocm-smi`: for the cards, and for their memory in use. */
export const AMD_SMI_COMMANDS = [
  ["static", "--asic", "--vram", "--numa", "--driver", "--json"],
  ["metric", "--mem-usage", "--json"],
] as const;
/**
 * Reads the JSON of `amd-smi static` and of `amd-smi metric` (without it nothing counts as in use); undefined when the
 * first lists no card. Its "MB" are MiB. ROCm 6 prints a list, ROCm 7 an object with the list under `gpu_data`.
 */
export function parseAmdSmi(cards: string, usage: string): ShownGpus | undefined {
  const used = new Map(
    entriesOf(usage).map((
      entry,
    ) => [numberOf(entry["gpu"]), numberOf(partOf(entry, "mem_usage")["used_vram"])]),
  );
  let driver: string | undefined;
  const gpus = entriesOf(cards).flatMap((entry): Gpu[] => {
    const index = numberOf(entry["gpu"]);
    const totalMiB = numberOf(partOf(entry, "vram")["size"]);
    if (index === undefined || totalMiB === undefined) return [];
    const asic = partOf(entry, "asic");
    const { version, driver_version } = partOf(entry, "driver");
    driver ??= textOf(version) ?? textOf(driver_version);
    return [{
      id: String(index),
      index,
      uuid: textOf(asic["asic_serial"]) ?? `gpu${index}`,
      name: textOf(asic["market_name"]) ?? "AMD GPU",
      vendor: "amd",
      totalMiB,
      usedMiB: used.get(index) ?? 0,
      computeCapability: textOf(asic["target_graphics_version"]),
      numaNode: numberOf(partOf(entry, "numa")["node"]),
    }];
  });
  return gpus.length === 0 ? undefined : { gpus, driver, linked };
}

/** The objects of a list that may be wrapped, behind warnings. */
function entriesOf(text: string): JsonObject[] {
  const start = text.search(/[[{]\s*["{]/);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text.slice(Math.max(0, start)));
  } catch {
    return [];
  }
  const list = isJsonObject(parsed) ? parsed["gpu_data"] : parsed;
  return Array.isArray(list) ? list.filter(isJsonObject) : [];
}

function partOf(entry: JsonObject, name: string): JsonObject {
  const part = entry[name];
  return isJsonObject(part) ? part : {};
}

/** A number, or one with its unit: `{"value": 196592, "unit": "MB"}`. */
function numberOf(field: unknown): number | undefined {
  const value = isJsonObject(field) ? field["value"] : field;
  return typeof value === "number" ? value : undefined;
}

/** A text; undefined for N/A, by which the tools mean that they do not know. */
function textOf(field: unknown): string | undefined {
  return typeof field === "string" && field !== "" && field !== "N/A" ? field : undefined;
}
