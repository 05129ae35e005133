import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import type { Transport } from "../../../base/transport.ts";

/** A router and its command line in front of one worker. */
export interface PeerRouter {
  readonly name: string;
  readonly command: (
    where: { readonly port: number; readonly engineUrl: string; readonly folder: string },
  ) => {
    readonly program: string;
    readonly args: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
  };
}

const MODEL = "m";

/** Canopy, and the routers that `tests/engines/setup_peers.sh` installs into `peers`. */
export function peerRouters(canopy: string, peers: string): PeerRouter[] {
  const rust = (name: string, program: string): PeerRouter => ({
    name,
    command: ({ port, engineUrl }) => ({
      program,
      args: [
        ...["launch", "--worker-urls", engineUrl, "--policy", "round_robin", "--host", "127.0.0.1"],
        ...["--port", `${port}`, "--prometheus-port", `${port + 1000}`, "--log-level", "error"],
      ],
    }),
  });
  return [
    {
      name: "canopy",
      command: ({ port, engineUrl, folder }) => {
        const config = join(folder, "canopy.json");
        const models = {
          [MODEL]: { model: MODEL, engine: "sglang", tokenizer: false, workers: [engineUrl] },
        };
        writeFileSync(config, JSON.stringify({ server: { port, log_level: "error" }, models }));
        return { program: canopy, args: ["serve", config] };
      },
    },
    rust("sglang-router 0.3.2", join(peers, "sglang-router-0.3.2/bin/sglang-router")),
    rust("smg 1.13.0", join(peers, "smg-1.13.0/bin/smg")),
    {
      name: "LiteLLM 1.106.2",
      command: ({ port, engineUrl, folder }) => {
        const config = join(folder, "litellm.json");
        const params = { model: `openai/${MODEL}`, api_base: `${engineUrl}/v1`, api_key: "none" };
        writeFileSync(
          config,
          JSON.stringify({ model_list: [{ model_name: MODEL, litellm_params: params }] }),
        );
        const open = { LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY: "true" };
        return {
          program: join(peers, "litellm-1.106.2/bin/litellm"),
          args: ["--config", config, "--host", "127.0.0.1", "--port", `${port}`, "--telemetry", "False"],
          env: { LITELLM_LOCAL_MODEL_COST_MAP: "True", LITELLM_LOG: "ERROR", ...open },
        };
      },
    },
  ];
}

/** Clock ticks of a second in `/proc/PID/stat`; 100 on every Linux of today. */
const TICKS_PER_SECOND = 100;

/** A program and all that it has started. */
export class RunningRouter {
  readonly url: string;
  readonly #child: ChildProcess;
  #output = "";

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
    child.stdout?.on("data", (part) => this.#output += part);
    child.stderr?.on("data", (part) => this.#output += part);
  }

  /** Starts it and waits until a request gets through. */
  static async start(
    router: PeerRouter,
    where: { readonly port: number; readonly engineUrl: string; readonly folder: string },
    { clock, transport, env }: {
      readonly clock: Clock;
      readonly transport: Transport;
      readonly env: Readonly<Record<string, string | undefined>>;
    },
  ): Promise<RunningRouter> {
    const { program, args, env: more } = router.command(where);
    const child = spawn(program, args, { env: { ...env, ...more }, stdio: ["ignore", "pipe", "pipe"] });
    const running = new RunningRouter(`http://127.0.0.1:${where.port}`, child);
    const giveUpAtMs = clock.now() + 90_000;
    const body = JSON.stringify({
      model: MODEL,
      messages: [{ role: "user", content: "Hi" }],
      max_tokens: 1,
      stream: true,
    });
    while (true) {
      try {
        const headers = { "content-type": "application/json" };
        const url = `${running.url}/v1/chat/completions`;
        const response = await transport.send(
          { method: "POST", url, headers, body },
          new AbortController().signal,
        );
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
    const parents = new Map<number, number>();
    const ticks = new Map<number, number>();
    for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
      try {
        const fields = readFileSync(`/proc/${name}/stat`, "utf8").replace(/^.*\) /s, "").split(" ");
        parents.set(Number(name), Number(fields[1]));
        ticks.set(Number(name), Number(fields[11]) + Number(fields[12]));
      } catch {
        // It has just ended.
      }
    }
    const belongs = (pid: number | undefined): boolean =>
      pid !== undefined && pid > 1 && (pid === this.#child.pid || belongs(parents.get(pid)));
    let sum = 0;
    for (const [pid, own] of ticks) if (belongs(pid)) sum += own;
    return sum / TICKS_PER_SECOND * 1e6;
  }

  stop(): void {
    this.#child.kill("SIGKILL");
  }
}
