import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { Clock } from "../../../base/clock.ts";
import type { Transport } from "../../../base/transport.ts";
import { ProcessTree } from "./process_tree.ts";

/** A way in which workers serve. */
export type Mode = "pd" | "regular";

/** Ports of one router and of the workers behind it. */
export interface RouterPlace {
  readonly mode: Mode;
  readonly port: number;
  /** A pair's prefill and decode server; the latter is the only one in regular mode. */
  readonly prefillPort: number;
  readonly decodePort: number;
  readonly policy: string;
}

/** A router and its command line. */
export interface PeerRouter {
  readonly name: string;
  readonly command: (place: RouterPlace) => readonly string[];
}

/** The router that the others are compared to. */
export const BASELINE = "sglang-router 0.3.2";

/** Routers by short names; `peers` is where `tests/engines/setup_peers.sh` has installed them. */
export function peerRouters(canopy: string, peers: string): ReadonlyMap<string, PeerRouter> {
  const own = fileURLToPath(new URL("../../../main.ts", import.meta.url));
  const floor = fileURLToPath(new URL("./floor.ts", import.meta.url));
  const deno = process.versions["deno"] === undefined ? ["npx", "-y", "deno@2.9.6"] : [process.execPath];
  const launch = (name: string, program: readonly string[]): PeerRouter => ({
    name,
    command: (place) => [...program, ...launchFlags(place)],
  });
  return new Map([
    ["sglang", launch(BASELINE, [join(peers, "sglang-router-0.3.2/bin/sglang-router"), "launch"])],
    ["smg", launch("smg 1.13.0", [join(peers, "smg-1.13.0/bin/smg"), "launch"])],
    ["canopy", launch("canopy", [canopy, "serve"])],
    // Rust routers take all cores; so does this one.
    ["threads", launch("canopy --workers 2", [canopy, "serve", "--workers", "2"])],
    ["deno", launch("canopy on Deno", [...deno, "run", "-A", "--no-check", own, "serve"])],
    ["floor", {
      name: "Bun.serve + sockets",
      command: ({ port, mode, prefillPort, decodePort }) => [
        ...[bunPath(), floor, `${port}`, `${decodePort}`],
        ...(mode === "pd" ? [`${prefillPort}`] : []),
      ],
    }],
  ]);
}

/** Bun itself: what starts it by its version lasts as long, and would be counted with it. */
function bunPath(): string {
  return execFileSync("npx", ["-y", "bun@1.4.5", "-p", "process.execPath"], { encoding: "utf8" }).trim();
}

function launchFlags({ mode, port, prefillPort, decodePort, policy }: RouterPlace): string[] {
  const [prefill, decode] = [prefillPort, decodePort].map((one) => `http://127.0.0.1:${one}`);
  return [
    ...(mode === "pd"
      ? ["--pd-disaggregation", "--prefill", `${prefill}`, "8998", "--decode", `${decode}`]
      : ["--worker-urls", `${decode}`]),
    ...["--host", "127.0.0.1", "--port", `${port}`, "--prometheus-port", `${port + 1000}`],
    ...["--policy", policy, "--log-level", "warn"],
  ];
}

/** A router that serves. */
export class RunningRouter {
  readonly name: string;
  readonly port: number;
  readonly #child: ChildProcess;
  readonly #tree: ProcessTree;
  #output = "";

  private constructor(name: string, port: number, child: ChildProcess) {
    this.name = name;
    this.port = port;
    this.#child = child;
    this.#tree = new ProcessTree(child.pid ?? -1);
    child.stdout?.on("data", (part) => this.#output += part);
    child.stderr?.on("data", (part) => this.#output += part);
  }

  /** Starts it and waits until a request gets through. */
  static async start(
    router: PeerRouter,
    place: RouterPlace,
    model: string,
    { clock, transport }: { readonly clock: Clock; readonly transport: Transport },
  ): Promise<RunningRouter> {
    await refuseTaken(place.port, transport);
    const [program = "", ...args] = router.command(place);
    const env = { ...process.env, npm_config_loglevel: "error" };
    // A group of its own: some are started by a script, which is to end with it.
    const child = spawn(program, args, { env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    const running = new RunningRouter(router.name, place.port, child);
    const giveUpAtMs = clock.now() + 90_000;
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }], max_tokens: 1 });
    while (true) {
      const request = {
        method: "POST",
        url: `http://127.0.0.1:${place.port}/v1/chat/completions`,
        headers: { "content-type": "application/json" },
        body,
      } as const;
      try {
        const response = await transport.send(request, new AbortController().signal);
        for await (const _ of response.body) { /* to its end */ }
        if (response.status === 200) return running;
      } catch {
        // Not there yet.
      }
      if (clock.now() > giveUpAtMs || child.exitCode !== null) {
        running.stop();
        throw new Error(`${router.name} does not answer:\n${running.#output.slice(-2000)}`);
      }
      await clock.sleep(200);
    }
  }

  /** CPU time that it and its children have taken so far, in µs. */
  cpuMicros(): number {
    return this.#tree.cpuMicros();
  }

  /** Memory of it and its children, in MB: what is resident, pages that several share counted by share. */
  memoryMb(): number {
    return this.#tree.memoryMb();
  }

  stop(): void {
    if (this.#child.pid !== undefined && this.#child.exitCode === null) {
      process.kill(-this.#child.pid, "SIGKILL");
    }
  }
}

/** Throws where something answers already: it would be measured in the router's place. */
async function refuseTaken(port: number, transport: Transport): Promise<void> {
  const url = `http://127.0.0.1:${port}/`;
  try {
    const { body } = await transport.send({ method: "GET", url, headers: {} }, new AbortController().signal);
    for await (const _ of body) { /* to its end */ }
  } catch {
    return;
  }
  throw new Error(`Port ${port} is taken: end what listens there, such as a router of an earlier run`);
}
