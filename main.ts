import { benchCommand } from "./cli/bench/bench.ts";
import { chatCommand } from "./cli/chat/chat.ts";
import { checkCommand } from "./cli/check/check.ts";
import { completionCommand } from "./cli/completion/completion.ts";
import { demoCommand } from "./cli/demo/demo.ts";
import { doctorCommand } from "./cli/doctor/doctor.ts";
import { healthCommand } from "./cli/health/health.ts";
import { initCommand } from "./cli/init/init.ts";
import { runCommand } from "./cli/kit/dispatch.ts";
import { withProcess } from "./cli/kit/io.ts";
import { launchCommand } from "./cli/launch/launch.ts";
import { statusCommand } from "./cli/launch/status.ts";
import { stopCommand } from "./cli/launch/stop.ts";
import { modelsCommand } from "./cli/models/models.ts";
import { planCommand } from "./cli/plan/plan.ts";
import { runsCommand } from "./cli/runs/runs.ts";
import { scoreCommand } from "./cli/score/score.ts";
import { serveCommand } from "./cli/serve/serve.ts";
import { simCommand } from "./cli/sim/sim.ts";
import { topCommand } from "./cli/top/top.ts";
import { tuneCommand } from "./cli/tune/tune.ts";

const commands = [
  demoCommand,
  initCommand,
  serveCommand,
  chatCommand,
  runsCommand,
  topCommand,
  checkCommand,
  doctorCommand,
  healthCommand,
  planCommand,
  launchCommand,
  statusCommand,
  stopCommand,
  simCommand,
  benchCommand,
  scoreCommand,
  tuneCommand,
  modelsCommand,
];

await withProcess((args, io) => runCommand([...commands, completionCommand(commands)], args, io));
