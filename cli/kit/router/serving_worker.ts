import process from "node:process";
import { parentPort, workerData } from "node:worker_threads";
import { SystemClock } from "../../../base/clock.ts";
import { CanopyError, messageOf } from "../../../base/errors.ts";
import { startLog } from "../../../base/log.ts";
import { Random, systemSeed } from "../../../base/random.ts";
import type { FromServingThread, ToServingThread } from "../../../router/threads/messages.ts";
import { ServingRouter } from "../../../router/threads/serving_router.ts";
import { systemTransport } from "../../../router/transport/system.ts";
import { SharedAudits } from "../../../scorer/audit/shared_audits.ts";
import type { FromScorerThread, StartScorerThread } from "../../../scorer/thread/worker_thread.ts";
import { version } from "../version.ts";
import { loadAnyTokenizer } from "./load_any_tokenizer.ts";
import { makeSpans } from "./make_spans.ts";
import { makeEarlyExit } from "./make_early_exit.ts";
import type { ServingThreadData } from "./serving_thread.ts";
import { WorkerNetwork } from "./worker_network.ts";

// The thread that `LeadingRouter` starts: it serves clients on the port that all threads share.

const port = parentPort;
if (port === null) throw new Error("This file is started by LeadingRouter, in a thread of its own");
const post = (message: FromServingThread): void => port.postMessage(message);
const { config, options, address }: ServingThreadData = workerData;
const clock = new SystemClock();
const env = process.env;
const stop = new AbortController();
let { server } = config;
let toScorer: ((message: FromScorerThread) => void) | undefined;

const shareScorer: StartScorerThread = (_, events) => {
  toScorer = (message) => events.message(message);
  post({ kind: "open_scorer" });
  return { post: (message) => post({ kind: "scorer", message }), keepAlive: () => {}, terminate: () => {} };
};

const beginLog = () =>
  startLog({ level: server.log_level, format: server.log_format, folder: server.log_dir });

try {
  beginLog();
  const network = new WorkerNetwork(config, systemTransport());
  const { transport } = network;
  // One scorer for all threads: its model is loaded once.
  const audits = new SharedAudits((audit, event) => post({ kind: "audit", audit, event }));
  const earlyExit = makeEarlyExit(config, { clock, env, transport, stop: stop.signal }, {
    start: shareScorer,
    audits,
  });
  const random = new Random(systemSeed());
  const spans = await makeSpans(config, { clock, random });
  const router = new ServingRouter({
    ...options,
    config,
    clock,
    random: random.stream("router"),
    spans,
    transport,
    version,
    earlyExit: earlyExit.services,
    loadTokenizer: (source) => loadAnyTokenizer(source, { transport, signal: stop.signal, env, clock }),
    post,
  });
  port.on("message", (message: ToServingThread) => {
    if (message.kind === "crash") throw new Error("The thread was told to crash");
    if (message.kind === "scorer") toScorer?.(message.message);
    else if (message.kind === "audit") audits.take(message.audit, message.event);
    else if (message.kind === "config") {
      const change = network.prepare(message.config);
      router.reconfigure(message.config, message.models);
      audits.forget();
      change.commit();
      const before = server;
      ({ server } = message.config);
      if (before.log_level !== server.log_level || before.log_format !== server.log_format) beginLog();
    } else router.take(message);
  });
  const { url } = await router.listen(address);
  post({ kind: "listening", url });
} catch (error) {
  const { code, status } = CanopyError.is(error) ? error : { code: "thread_failed", status: 500 };
  post({ kind: "failed", reason: messageOf(error), code, status });
}
