import type { Command } from "./kit/command.ts";

/** Commands by name, in the order of the overview; each with all that it needs is loaded when it is asked for. */
const LOADERS: Readonly<Record<string, () => Promise<Command>>> = {
  demo: async () => (await import("./demo/demo.ts")).demoCommand,
  init: async () => (await import("./init/init.ts")).initCommand,
  serve: async () => (await import("./serve/serve.ts")).serveCommand,
  chat: async () => (await import("./chat/chat.ts")).chatCommand,
  runs: async () => (await import("./runs/runs.ts")).runsCommand,
  top: async () => (await import("./top/top.ts")).topCommand,
  check: async () => (await import("./check/check.ts")).checkCommand,
  doctor: async () => (await import("./doctor/doctor.ts")).doctorCommand,
  health: async () => (await import("./health/health.ts")).healthCommand,
  plan: async () => (await import("./plan/plan.ts")).planCommand,
  launch: async () => (await import("./launch/launch.ts")).launchCommand,
  status: async () => (await import("./launch/status.ts")).statusCommand,
  stop: async () => (await import("./launch/stop.ts")).stopCommand,
  sim: async () => (await import("./sim/sim.ts")).simCommand,
  bench: async () => (await import("./bench/bench.ts")).benchCommand,
  score: async () => (await import("./score/score.ts")).scoreCommand,
  tune: async () => (await import("./tune/tune.ts")).tuneCommand,
  models: async () => (await import("./models/models.ts")).modelsCommand,
};
/** What is answered without any command. */
const VERSION = ["version", "--version", "-V"];

/** The commands that a command line can be about: the one that it names, none for the version, else all. */
export async function commandsFor(args: readonly string[]): Promise<readonly Command[]> {
  const [first = ""] = args;
  if (VERSION.includes(first)) return [];
  const named = first === "help" ? args[1] ?? "" : first;
  const load = Object.hasOwn(LOADERS, named) ? LOADERS[named] : undefined;
  if (load !== undefined) return [await load()];
  const commands = await Promise.all(Object.values(LOADERS).map((one) => one()));
  return [...commands, (await import("./completion/completion.ts")).completionCommand(commands)];
}
