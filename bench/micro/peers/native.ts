import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** The clients' report on one load. Times are µs. */
export interface ClientReport {
  readonly requests: number;
  readonly requestsP50Us: number;
  readonly requestsP99Us: number;
  readonly chunks: number;
  readonly chunksP50Us: number;
  readonly chunksP99Us: number;
  readonly begun: number;
  readonly failed: number;
  /** Chunks of streams that did not come, and that came before an earlier one. */
  readonly lost: number;
  readonly reordered: number;
  readonly seconds: number;
}

/** The worker and the clients of the bench: C, so that the router between them is what costs. */
export class NativeBench {
  readonly #folder: string;

  /** Compiles both into `folder`. Throws when there is no C compiler. */
  constructor(folder: string) {
    this.#folder = folder;
    for (const name of ["mock", "client"]) {
      const source = fileURLToPath(new URL(`./native/${name}.c`, import.meta.url));
      try {
        execFileSync("cc", ["-O2", "-o", join(folder, name), source]);
      } catch (cause) {
        throw new Error("Cannot compile the bench's worker and clients: install a C compiler (cc)", {
          cause,
        });
      }
    }
  }

  /** Starts the worker; it is one process for all of its ports. The returned function ends it. */
  async serve(model: string, ports: readonly number[]): Promise<() => void> {
    const worker = spawn(join(this.#folder, "mock"), [model, ...ports.map(String)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const listening = await Promise.race([
      once(worker.stdout, "data").then(() => true),
      once(worker, "exit").then(() => false),
    ]);
    if (!listening) throw new Error(`The bench's worker cannot listen on ${ports.join(", ")}`);
    return () => void worker.kill("SIGKILL");
  }

  /** Runs clients to their end; `onOpen` is called once when they hold all of their streams. */
  async load(
    port: number,
    model: string,
    words: readonly string[],
    onOpen = () => {},
  ): Promise<ClientReport> {
    const clients = spawn(join(this.#folder, "client"), [`${port}`, model, ...words], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let last = "";
    for await (const line of createInterface({ input: clients.stdout })) {
      if (line === "open") onOpen();
      else last = line;
    }
    if (last === "") throw new Error(`The clients of ${words.join(" ")} ended without a report`);
    return JSON.parse(last);
  }
}
