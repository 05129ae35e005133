import { LeakyLink } from "./leaky_link.ts";
import { type Program, startProgram } from "./program.ts";

/** Halves of each kind in a process of pairs: all that may work together have to be in one. */
export const HALVES = 2;

/** A process of one simulated server, or of the prefill servers and then the decode servers of pairs, each behind a link. */
export class RealWorker {
  readonly links: readonly LeakyLink[];
  /** Port of the first prefill server's registry; the others follow. */
  readonly bootstrapPort: number;
  readonly #args: readonly string[];
  #program: Program | undefined;

  private constructor(args: readonly string[], links: readonly LeakyLink[], bootstrapPort: number) {
    this.#args = args;
    this.bootstrapPort = bootstrapPort;
    this.links = links;
  }

  /** Starts it at `port` and, for pairs, those that follow. `onBytes`: sees what the router sends to the n-th server. */
  static async start(
    { port, paired, onBytes }: {
      port: number;
      paired: boolean;
      onBytes: (server: number, bytes: string) => void;
    },
  ): Promise<RealWorker> {
    const bootstrapPort = port + 2 * HALVES;
    const halves = String(HALVES);
    const pair = ["--pd-prefill", halves, "--pd-decode", halves, "--bootstrap-port", String(bootstrapPort)];
    const args = [
      "sim",
      "--engine",
      "sglang",
      "--cost",
      "8b",
      "--port",
      String(port),
      ...(paired ? pair : []),
    ];
    const links = Array.from(
      { length: paired ? 2 * HALVES : 1 },
      (_, server) => new LeakyLink(port + server, (bytes) => onBytes(server, bytes)),
    );
    const worker = new RealWorker(args, links, bootstrapPort);
    await worker.restart("0.5.23", "org/m");
    return worker;
  }

  /** Starts another process in place of one that has ended. */
  async restart(version: string, model: string): Promise<void> {
    this.#program = await startProgram([...this.#args, "--version", version, "--model", model]);
    for (const link of this.links) await link.listen();
  }

  async kill(): Promise<void> {
    // A process that stands still ends, too.
    this.#program?.signal("SIGKILL");
    for (const link of this.links) await link.refuse();
    await this.#program?.ended;
  }

  pause(): void {
    this.#program?.signal("SIGSTOP");
  }

  resume(): void {
    this.#program?.signal("SIGCONT");
  }
}
