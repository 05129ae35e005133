import { VirtualClock } from "../../../base/clock.ts";
import { benchCommand } from "../../../cli/bench/bench.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { createSimulator } from "../../../simulator/simulator.ts";
import { fakeIo } from "../fake_io.ts";

/** Runs `canopy bench eval` before one simulated engine of two models that says the right answer to one question. */
export async function evaluated(
  cwd: string,
  args: readonly string[],
  { command = "eval", failures = 0, env = {} }: {
    command?: string;
    failures?: number;
    env?: Record<string, string>;
  } = {},
) {
  const clock = new VirtualClock();
  const engine = createSimulator({
    engine: "vllm",
    models: ["org/m", "org/n"],
    cost: "4b",
    clock,
    seed: "x",
    answers: {
      answer: (prompt) => ({
        text: /bolts/.test(prompt) ? "So it is \\boxed{15}." : "Never mind.",
        doubt: 1,
      }),
    },
  });
  if (failures > 0) engine.inject({ kind: "status_500", count: failures });
  const transport = new MemoryTransport(() => (request, signal) => engine.handle(request, signal));
  const io = fakeIo({ cwd, env, clock, transport, columns: 200 });
  const work = () => runCommand([benchCommand], ["bench", command, ...args], io);
  // A page is drawn by a library that is loaded then, which takes real time.
  const code = args.includes("--html") ? await work() : await clock.run(work);
  return { code, out: io.out.text, err: io.err.text, requests: engine.stats.requests };
}
