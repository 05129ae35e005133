/**
 * Workers that are killed in the middle of answers, one after the other, under load. `CANOPY_KILLS` says how many are;
 * 60 take a minute.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { assertUnharmed, describeStorm, killStorm, type Victim } from "../kill_storm.ts";
import { type RunningBinary, startBinary } from "./binary.ts";

const KILLS = Number(process.env["CANOPY_KILLS"] ?? 4);
/** On a slow machine a second may be too short for four tokens, which the default of 1 expects of every other attempt. */
const RETRIES = 10;
const MAX_TOKENS = 120;

/** A simulated worker's process, which keeps its port when it comes back. */
class Worker implements Victim {
  #binary: RunningBinary;
  readonly #args: readonly string[];
  #ended: Promise<unknown> = Promise.resolve();

  private constructor(binary: RunningBinary, args: readonly string[]) {
    this.#binary = binary;
    this.#args = [...args, "--port", new URL(binary.url).port];
  }

  static async start(args: readonly string[]): Promise<Worker> {
    return new Worker(await startBinary(args), args);
  }

  get url(): string {
    return this.#binary.url;
  }

  kill(): void {
    const { process } = this.#binary;
    this.#ended = new Promise((resolve) => process.once("exit", resolve));
    process.kill("SIGKILL");
  }

  async restart(): Promise<void> {
    await this.#ended;
    this.#binary = await startBinary(this.#args);
  }

  async stop(): Promise<void> {
    await this.#binary.stop();
  }
}

for (const [engine, version] of [["vllm", "0.32.0"], ["sglang", "0.5.23"]] as const) {
  test(`${engine}: kills of one of three workers after the other lose no run and change no text (simulated)`, async (context) => {
    const folder = mkdtempSync(join(tmpdir(), "canopy-kills-"));
    const workers: Worker[] = [];
    let router: RunningBinary | undefined;
    try {
      const args = ["sim", "--engine", engine, "--version", version, "--model", "org/m", "--cost", "4b"];
      for (let index = 0; index < 3; index++) workers.push(await Worker.start(args));
      const agent = { model: "m" };
      const config = {
        models: { m: { model: "org/m", engine, workers: workers.map(({ url }) => url), retries: RETRIES } },
        graphs: {
          moa: {
            sampling: { max_tokens: MAX_TOKENS, temperature: 0 },
            layers: [{ agents: [agent, agent, agent], min_responses: 3 }, { agents: [agent] }],
          },
        },
      };
      writeFileSync(join(folder, "canopy.json"), JSON.stringify(config));
      router = await startBinary(["serve", "canopy.json", "--port", "0"], { cwd: folder });
      const storm = await killStorm({
        canopy: router.url,
        victims: workers,
        kills: KILLS,
        concurrency: 6,
        maxTokens: MAX_TOKENS,
      });
      context.diagnostic(describeStorm(storm));
      assertUnharmed(storm);
    } finally {
      await router?.stop();
      await Promise.all(workers.map((worker) => worker.stop()));
      rmSync(folder, { recursive: true, force: true });
    }
  });
}
