import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mortalEnv } from "../../lifeline.ts";

/** The first of these programs that is installed, or undefined. */
export const VALKEY_PROGRAM: string | undefined = ["valkey-server", "redis-server"]
  .find((name) => spawnSync(name, ["--version"]).status === 0);

/** A real server, empty at each start. */
export class ValkeyServer {
  readonly port: number;
  #child: ChildProcess | undefined;
  #folder = "";

  constructor(port: number) {
    this.port = port;
  }

  /** Starts it; whoever asks must wait until it listens. */
  async start(password = ""): Promise<void> {
    this.#folder = await mkdtemp(join(tmpdir(), "canopy-valkey-"));
    const args = ["--port", String(this.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    args.push("--dir", this.#folder, "--requirepass", password);
    this.#child = spawn(VALKEY_PROGRAM ?? "", args, {
      stdio: "ignore",
      env: mortalEnv(),
    });
  }

  /** Ends it; resolves when its port is free. */
  async stop(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child !== undefined && child.exitCode === null) {
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await gone;
    }
    await rm(this.#folder, { recursive: true, force: true });
  }
}
