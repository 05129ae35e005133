import type { EngineCommand } from "../commands/engine_command.ts";
import { type HostGpus, isBusy } from "../host/gpu.ts";
import { gib } from "../model/memory.ts";
import type { LaunchPlan, PlannedEngine } from "./launch_plan.ts";

/** The plan for people: GPUs, a table of engines with reasons, notes, and the exact commands. */
export function planText(plan: LaunchPlan): string {
  const parts = [hostText(plan.host), engineTable(plan.engines), reasonsText(plan.engines)];
  if (plan.notes.length > 0) parts.push(plan.notes.map((note) => `Note: ${note}.\n`).join(""));
  const commands = plan.engines.filter((engine) => engine.within === undefined);
  parts.push(commands.map((engine) => `# ${engine.name}\n${shellLine(engine.command)}\n`).join("\n"));
  return parts.filter((part) => part !== "").join("\n");
}

function hostText(host: HostGpus): string {
  if (host.gpus.length === 0) return "No GPUs are planned with.\n";
  const driver = host.driver === undefined ? "" : `, driver ${host.driver}`;
  const lines = host.gpus.map((gpu) => {
    const use = isBusy(gpu) ? `, in use by others (${gib(gpu.usedMiB)} GiB): left alone` : "";
    return `  GPU ${gpu.id}: ${gpu.name}, ${gib(gpu.totalMiB)} GiB${use}\n`;
  });
  return `GPUs (${host.source}${driver}):\n${lines.join("")}`;
}

function engineTable(engines: readonly PlannedEngine[]): string {
  const head = ["ENGINE", "FAMILY", "GPU", "PORT", "SHARE", "WEIGHTS", "CACHE", "TOKENS", "CONTEXT"];
  const rows = engines.map((engine) => [
    engine.name,
    engine.family,
    (engine.gpus.map((gpu) => gpu.id).join(",") || "-") +
    (engine.nodes > 1 ? ` of ${engine.nodes} hosts` : ""),
    String(engine.port),
    engine.memoryFraction === undefined ? "-" : String(engine.memoryFraction),
    engine.memory === undefined ? "-" : `${gib(engine.memory.weightsMiB)} GiB`,
    engine.memory === undefined ? "-" : `${gib(engine.memory.kvMiB)} GiB`,
    engine.memory === undefined ? "-" : String(engine.memory.kvTokens),
    String(engine.contextTokens ?? engine.shape?.maxContextTokens ?? "-"),
  ]);
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  return all.map((row) =>
    `${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ").trimEnd()}\n`
  ).join("");
}

function reasonsText(engines: readonly PlannedEngine[]): string {
  return engines.filter((engine) => engine.reasons.length > 0)
    .map((engine) => `${engine.name}: ${engine.reasons.join("; ")}.\n`).join("");
}

/** A command as a line for a POSIX shell, with its environment in front. */
export function shellLine(command: EngineCommand): string {
  const env = Object.entries(command.env).map(([name, value]) => `${name}=${quoted(value)}`);
  return [...env, ...command.argv.map(quoted)].join(" ");
}

/** A word for a POSIX shell. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** The plan for programs. */
export function planJson(plan: LaunchPlan): unknown {
  const { gpus, driver, source } = plan.host;
  const links = gpus.flatMap((a, at) =>
    gpus.slice(at + 1).filter((b) => plan.host.linked(a.index, b.index)).map((b) => [a.index, b.index])
  );
  return {
    host: { source, driver: driver ?? null, gpus, links },
    engines: plan.engines.map((engine) => ({ ...engine, gpus: engine.gpus.map((gpu) => gpu.id) })),
    workers: Object.fromEntries(plan.workers),
    protocols: Object.fromEntries(plan.protocols),
    notes: plan.notes,
  };
}
