import { checkCommand } from "./cli/check.ts";
import { dispatch } from "./cli/dispatch.ts";
import { withProcess } from "./cli/io.ts";

const commands = [checkCommand];

await withProcess((args, io) => dispatch(commands, args, io));
