import process from "node:process";
import { commandsFor } from "../../cli/commands.ts";
import { runCommand } from "../../cli/kit/dispatch.ts";
import { withProcess } from "../../cli/kit/io.ts";
import { ThreadedRouter } from "../../cli/kit/router/threaded_router.ts";

/** `canopy`, but that SIGUSR2 ends the next of its serving threads as a crash does: no signal of the system ends one. */
let router: ThreadedRouter | undefined;
let thread = 0;

const { listen } = ThreadedRouter.prototype;
ThreadedRouter.prototype.listen = function () {
  router = this;
  return listen.call(this);
};

process.on("SIGUSR2", () => {
  if (router?.crash(++thread) === true) return;
  // Behind the last one comes the first.
  thread = 1;
  router?.crash(thread);
});

await withProcess(async (args, io) => runCommand(await commandsFor(args), args, io));
