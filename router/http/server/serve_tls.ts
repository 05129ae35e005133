import type { Clock } from "../../../base/clock.ts";
import { messageOf } from "../../../base/errors.ts";
import { logger } from "../../../base/log.ts";
import type { Fetches } from "./fetches.ts";
import { type HttpServer, serveHttp } from "./serve_http.ts";
import { readTlsPair, type TlsFiles, type TlsPair } from "./tls_files.ts";

/** Time between two looks at the files: clusters replace them by links, which no watch on a file sees. */
const LOOK_MS = 5_000;
/** Time between attempts to take the port back; the first or the second one succeeds. */
const ATTEMPT_MS = 5;
/** The attempt whose failure is logged. */
const TOLD_ATTEMPT = 200;

/** Options of `serveTls`. */
export interface ServeTlsOptions {
  readonly host: string;
  readonly port: number;
  readonly files: TlsFiles;
  readonly clock: Clock;
  /** As in `serveHttp`. */
  readonly sharesPort?: boolean | undefined;
}

/** An HTTPS server. */
export interface TlsServer extends HttpServer {
  /** Takes its certificate from other files from now on. */
  useFiles(files: TlsFiles): void;
}

/**
 * Starts an HTTPS server. When its files change, new connections get the new certificate and those there are go on; a
 * pair that is broken is logged, and the old one stays. Throws as `readTlsPair` and `serveHttp` do.
 */
export function serveTls(
  app: Fetches,
  { host, port, clock, sharesPort, ...options }: ServeTlsOptions,
): TlsServer {
  let { files } = options;
  let wake = new AbortController();
  const log = logger("tls");
  const life = new AbortController();
  const ended: Promise<void>[] = [];
  let pair = readTlsPair(files);
  let server = serveHttp(app, { host, port, tls: pair, sharesPort });
  const { url } = server;
  const taken = Number(new URL(url).port);

  async function replace(next: TlsPair): Promise<void> {
    // Both runtimes keep a server's certificate: another server takes its place. What the old one answers goes on.
    ended.push(server.shutdown());
    for (let attempt = 1;; attempt++) {
      try {
        server = serveHttp(app, { host, port: taken, tls: next, sharesPort });
        return;
      } catch (error) {
        if (attempt === TOLD_ATTEMPT) {
          log.error("Port {port} is not to be had again: {error}", { port: taken, error: messageOf(error) });
        }
        await clock.sleep(ATTEMPT_MS, life.signal);
      }
    }
  }

  async function watch(): Promise<void> {
    let refused = "";
    while (!life.signal.aborted) {
      await clock.sleep(LOOK_MS, AbortSignal.any([life.signal, wake.signal])).catch(() => {});
      if (life.signal.aborted) return;
      if (wake.signal.aborted) wake = new AbortController();
      try {
        const next = readTlsPair(files);
        refused = "";
        if (next.cert === pair.cert && next.key === pair.key) continue;
        pair = next;
        await replace(next);
        log.info("{file} has changed: new connections get the new certificate", { file: files.cert });
      } catch (error) {
        // The two files are seldom replaced in one moment.
        const problem = messageOf(error);
        if (problem !== refused && !life.signal.aborted) {
          log.warning("The certificate stays as it was: {problem}", { problem });
        }
        refused = problem;
      }
    }
  }
  void watch().catch(() => {});

  return {
    url,
    useFiles: (next) => {
      files = next;
      wake.abort();
    },
    shutdown: async () => {
      life.abort(new Error("The server is shutting down"));
      await Promise.all([...ended, server.shutdown()]);
    },
  };
}
