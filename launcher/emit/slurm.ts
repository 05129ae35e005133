import {
  type EmitInput,
  type EmittedFile,
  hostArgv,
  nodeOptions,
  processesOf,
  routerConfig,
  routerConfigText,
  routerPort,
  startsAfter,
} from "./emitted.ts";
import type { PlannedEngine } from "../plan/launch_plan.ts";
import { quoted } from "../plan/plan_text.ts";

/** Shell functions of the script, and its end of all engines. */
const FUNCTIONS = `set -euo pipefail
cd "\${SLURM_SUBMIT_DIR:-.}"
mkdir -p logs

pids=()
stop_engines() {
  trap - EXIT
  for pid in "\${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  wait
}
trap stop_engines EXIT

# healthy NAME PID PORT: waits until an engine serves, or says why it does not.
healthy() {
  until curl -fsS -o /dev/null "http://127.0.0.1:$3/health" 2>/dev/null; do
    if ! kill -0 "$2" 2>/dev/null; then
      echo "Engine $1 ended before it was ready; its last lines:" >&2
      tail -n 20 "logs/$1.log" >&2
      exit 1
    fi
    sleep 2
  done
  echo "Engine $1 is ready"
}
`;

/** A batch script for Slurm: engines in the background, then the router until the job ends. */
export function emitSlurm(input: EmitInput): EmittedFile[] {
  const engines = processesOf(input.plan);
  const config = routerConfig(input, (engine) => `http://${engine.host}:${engine.port}`);
  const nodes = Math.max(1, ...engines.map((engine) => engine.nodes));
  const used = input.plan.host.gpus.filter((gpu) =>
    engines.some((engine) => engine.gpus.some((own) => own.uuid === gpu.uuid))
  );
  // Inside a job GPUs count from 0, whichever the job was given.
  const indexInJob = new Map(used.map((gpu, at) => [gpu.id, String(at)]));
  const port = routerPort(config);
  const lines = [
    "#!/usr/bin/env bash",
    "#SBATCH --job-name=canopy",
    `#SBATCH --nodes=${nodes}`,
    "#SBATCH --ntasks-per-node=1",
    ...(used.length === 0 ? [] : [`#SBATCH --gpus-per-node=${used.length}`]),
    "#SBATCH --cpus-per-task=16",
    "#SBATCH --mem=0",
    "#SBATCH --time=24:00:00",
    "#SBATCH --output=canopy-%j.log",
    // The script is told a minute before the end, so that running requests can finish.
    "#SBATCH --signal=B:TERM@60",
    "",
    "# Submit: sbatch canopy.sbatch. The router listens on the job's first node; from elsewhere:",
    `#   ssh -L ${port}:127.0.0.1:${port} NODE`,
    FUNCTIONS,
  ];
  if (nodes > 1) {
    lines.push('leader=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)', "export leader", "");
  }
  const awaited = new Set<string>();
  const waitFor = (engine: PlannedEngine) => {
    if (awaited.has(engine.name)) return;
    awaited.add(engine.name);
    lines.push(`healthy ${engine.name} "$${variable(engine)}" ${engine.port}`);
  };
  for (const engine of engines) {
    for (const before of startsAfter(engine, input.plan)) waitFor(before);
    lines.push(
      `${startLine(engine, input, indexInJob)} >"logs/${engine.name}.log" 2>&1 &`,
      `${variable(engine)}=$!`,
      `pids+=("$${variable(engine)}")`,
    );
  }
  for (const engine of engines) waitFor(engine);
  lines.push(
    "",
    "# In the background, so that the signal reaches this script; the router ends its requests first.",
    "router=",
    "told=0",
    `trap 'told=1; [[ -z "$router" ]] || kill -TERM "$router" 2>/dev/null || true' TERM INT`,
    `${quoted(input.canopyBinary)} serve canopy.jsonc &`,
    "router=$!",
    "# The signal may have come before its number was known.",
    'if ((told)); then kill -TERM "$router" 2>/dev/null || true; fi',
    "code=0",
    'wait "$router" || code=$?',
    "# A signal ends the wait, not the router.",
    "if ((code > 128)); then",
    "  code=0",
    '  wait "$router" || code=$?',
    "fi",
    'exit "$code"',
    "",
  );
  return [
    { path: "canopy.sbatch", text: lines.join("\n") },
    { path: "canopy.jsonc", text: routerConfigText(config, undefined) },
  ];
}

/** Shell variable of an engine's process id. */
function variable(engine: PlannedEngine): string {
  return `pid_${engine.name.replaceAll(/[^a-z0-9]/g, "_")}`;
}

/** The line that starts an engine: on the first host, or by `srun` on all that it spans. */
function startLine(
  engine: PlannedEngine,
  { canopyBinary }: EmitInput,
  indexInJob: ReadonlyMap<string, string>,
): string {
  const argv = hostArgv(engine, canopyBinary);
  const gpus = engine.gpus.map((gpu) => indexInJob.get(gpu.id) ?? gpu.id).join(",");
  const env = Object.entries(engine.command.env).map(([name, value]) =>
    `${name}=${quoted(/_VISIBLE_DEVICES$/.test(name) && value !== "" ? gpus : value)}`
  );
  if (engine.nodes === 1) return ["env", ...env, ...argv.map(quoted)].join(" ");
  const options = nodeOptions(engine, { rank: "$SLURM_NODEID", leader: "$leader" });
  const inner = ["exec", "env", ...env, ...argv.map(quoted), ...options].join(" ");
  const step = ["srun", "--overlap", `--nodes=${engine.nodes}`, "--ntasks-per-node=1"];
  return [...step, `--gpus-per-node=${indexInJob.size}`, "bash", "-c", quoted(inner)].join(" ");
}
