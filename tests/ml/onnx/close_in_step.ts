import process from "node:process";
import { SystemClock } from "../../../base/clock.ts";
import { logger } from "../../../base/log.ts";
import { startDecoderThread } from "../../../embedded/thread/worker_thread.ts";
import { ModelThread } from "../../../ml/onnx/model_thread.ts";
import type { FromDecoder, ToDecoder } from "../../../embedded/thread/worker_thread.ts";
import { requestOf } from "../../embedded/tiny.ts";
import { fileURLToPath } from "node:url";

// Closes threads at many moments of their work, by a clock of which every wait is over at once: a thread that was ended
// inside a native call would end the process.

const path = fileURLToPath(new URL("../../../models/laboratory/s/model.onnx", import.meta.url));
const real = new SystemClock();
const hasty = {
  unixEpochMs: real.unixEpochMs,
  now: () => real.now(),
  sleep: (_: number, signal?: AbortSignal) => real.sleep(0, signal),
  timer: (_: number, fire: () => void) => real.timer(0, fire),
};
const prompt = Array.from({ length: 256 }, (_, i) => 5 + i % 40);

for (let round = 0; round < 24; round++) {
  const ended = Promise.withResolvers<void>();
  const closes = round % 2 === 0;
  const thread: ModelThread<ToDecoder, FromDecoder> = new ModelThread({
    clock: hasty,
    log: logger("test"),
    name: "s",
    start: (events) =>
      startDecoderThread(
        { model: "s", path, threads: 1, cacheBytes: 1e8, maxContextTokens: 512, maxRunning: 4 },
        events,
      ),
    message: ({ kind }) => {
      if (kind === "closed" || kind === "failed") {
        thread.hasClosed();
        ended.resolve();
      }
      if (kind !== "ready") return;
      thread.post({ kind: "generate", key: 1, request: requestOf(prompt, 200) });
      void real.sleep(round).then(() => thread.close());
    },
    crash: () => false,
  });
  thread.start();
  // While it loads.
  if (closes) void real.sleep(8 * round).then(() => thread.close());
  thread.keepAlive(true);
  await Promise.race([ended.promise, real.sleep(2_000)]);
}
process.stdout.write("alive\n");
process.exit(0);
