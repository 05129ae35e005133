import { benchCommand } from "./cli/bench.ts";
import { chatCommand } from "./cli/chat.ts";
import { checkCommand } from "./cli/check.ts";
import { demoCommand } from "./cli/demo.ts";
import { dispatch } from "./cli/dispatch.ts";
import { doctorCommand } from "./cli/doctor.ts";
import { withProcess } from "./cli/io.ts";
import { launchCommand } from "./cli/launch.ts";
import { statusCommand } from "./cli/launch_status.ts";
import { stopCommand } from "./cli/launch_stop.ts";
import { modelsCommand } from "./cli/models.ts";
import { planCommand } from "./cli/plan.ts";
import { scoreCommand } from "./cli/score.ts";
import { serveCommand } from "./cli/serve.ts";
import { simCommand } from "./cli/sim.ts";
import { tuneCommand } from "./cli/tune.ts";

const commands = [
  demoCommand,
  serveCommand,
  chatCommand,
  checkCommand,
  doctorCommand,
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

await withProcess((args, io) => dispatch(commands, args, io));
