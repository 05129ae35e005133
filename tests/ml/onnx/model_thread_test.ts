import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { VirtualClock } from "../../../base/clock.ts";
import { logger } from "../../../base/log.ts";
import { ModelThread } from "../../../ml/onnx/model_thread.ts";
import type { ThreadEvents } from "../../../ml/onnx/thread.ts";

function start() {
  const seen = { sent: [] as unknown[], terminated: 0, keptAlive: true };
  const clock = new VirtualClock();
  let events: ThreadEvents<string> | undefined;
  const thread: ModelThread<string, string> = new ModelThread({
    clock,
    log: logger("test"),
    name: "m",
    start: (given) => {
      events = given;
      return {
        post: (message) => void seen.sent.push(message),
        keepAlive: (on) => void (seen.keptAlive = on),
        terminate: () => void seen.terminated++,
      };
    },
    message: () => thread.hasClosed(),
    crash: () => true,
  });
  thread.start();
  return { clock, thread, seen, answer: () => events?.message("closed") };
}

test("a thread that is closed is asked to end, and ended when it has answered", async () => {
  const { clock, thread, seen, answer } = start();
  await clock.run(async () => {
    const closing = thread.close();
    assert.deepEqual([seen.sent, seen.terminated], [[{ kind: "close" }], 0]);
    answer();
    await closing;
  });
  assert.equal(seen.terminated, 1);
});

test("a thread in a long step is waited for no longer than 5 s, and ended only when it has left the step", async () => {
  const { clock, thread, seen, answer } = start();
  await clock.run(() => thread.close());
  assert.deepEqual([clock.now(), seen.terminated, seen.keptAlive], [5_000, 0, false]);
  answer();
  assert.equal(seen.terminated, 1);
});

test("a process outlives threads that are closed while their models load or compute", () => {
  const program = fileURLToPath(new URL("./close_in_step.ts", import.meta.url));
  const isDeno = process.versions["deno"] !== undefined;
  const args = isDeno ? ["run", "-A", "--no-check", program] : [program];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  assert.deepEqual([status, stdout], [0, "alive\n"], stderr);
});
