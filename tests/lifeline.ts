import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import process from "node:process";

const VARIABLE = "CANOPY_TEST_RUN";
const mark = crypto.randomUUID();
let started = false;

/**
 * Ends what these tests have started, however they end themselves. It waits for the end of its standard input, which
 * closes with the test process even when that is killed; all processes that bear the mark are then asked to end, and
 * killed 5 s later.
 */
const WATCH = `
left() { grep -lsz "^$0$" /proc/[0-9]*/environ | cut -d / -f 3; }
cat > /dev/null
for signal in TERM KILL; do
  pids=$(left); [ -n "$pids" ] || exit 0
  kill -s $signal $pids
  for wait in 1 2 3 4 5; do [ -n "$(left)" ] || exit 0; sleep 1; done
done`;

/** The environment for processes that must not outlive this test process, nor what they start themselves. */
export function mortalEnv(env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  if (!started && existsSync("/proc/self/environ")) {
    started = true;
    const watcher = spawn("sh", ["-c", WATCH, `${VARIABLE}=${mark}`], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    watcher.unref();
    // The pipe stays open, but nothing waits for it.
    if (watcher.stdin !== null && "unref" in watcher.stdin && typeof watcher.stdin.unref === "function") {
      watcher.stdin.unref();
    }
  }
  return { ...env, [VARIABLE]: mark };
}
