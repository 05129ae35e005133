import { commandsFor } from "./cli/commands.ts";
import { runCommand } from "./cli/kit/dispatch.ts";
import { withProcess } from "./cli/kit/io.ts";

await withProcess(async (args, io) => runCommand(await commandsFor(args), args, io));
