import { parentPort, workerData } from "node:worker_threads";
import { SystemClock } from "../../base/clock.ts";
import type { FromArchive, ToArchive } from "./archive_thread.ts";
import { serveArchive } from "./serve_archive.ts";

// The thread that `RunArchive` starts: it may be blocked for as long as a disk takes.

const port = parentPort;
if (port === null) throw new Error("This file is started by RunArchive, in a thread of its own");
const post = (message: FromArchive, transfer: ArrayBuffer[] = []): void =>
  port.postMessage(message, transfer);
const take = serveArchive(workerData, new SystemClock(), post);
port.on("message", (message: ToArchive) => take(message));
