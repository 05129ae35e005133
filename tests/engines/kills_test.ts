/**
 * Three vLLM servers of which one after the other is lost in the middle of answers, under load: texts must be those of
 * undisturbed runs. A server needs half a minute to start, so most losses are cut connections, and a few are killed
 * processes. `CANOPY_KILLS` says how many connections are cut; 60 take a minute.
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import process from "node:process";
import { after, before, describe, test } from "node:test";
import {
  assertUnharmed,
  describeStorm,
  killStorm,
  type KillStormOptions,
  type Victim,
} from "../kill_storm.ts";
import { type CanopyProcess, startCanopy } from "./canopy_process.ts";
import { type EngineProcess, startEngine, tinyModel } from "./engine_process.ts";
import { kindsUnderTest } from "./kinds_under_test.ts";

const CUTS = Number(process.env["CANOPY_KILLS"] ?? 10);
const PROCESS_KILLS = 3;
const WORKERS = 3;
/** On a slow machine a second may be too short for four tokens, which the default of 1 expects of every other attempt. */
const RETRIES = 10;
const MAX_TOKENS = 200;
/** Time for which a worker whose connections were cut cannot be reached. */
const AWAY_MS = 300;

/** What stands before a server and can cut it off: connections break, and no new ones are made. */
class Door {
  readonly #port: number;
  readonly #sockets = new Set<Socket>();
  #server: Server;
  #ownPort = 0;

  constructor(port: number) {
    this.#port = port;
    this.#server = this.#makeServer();
  }

  get url(): string {
    return `http://127.0.0.1:${this.#ownPort}`;
  }

  open(): Promise<void> {
    this.#server = this.#makeServer();
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(this.#ownPort, "127.0.0.1", () => {
        const address = this.#server.address();
        if (typeof address === "object" && address !== null) this.#ownPort = address.port;
        resolve();
      });
    });
  }

  shut(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #makeServer(): Server {
    return createServer((client) => {
      const worker = connect(this.#port, "127.0.0.1");
      const both = [client, worker];
      const destroy = () => {
        for (const socket of both) socket.destroy();
      };
      for (const socket of both) {
        this.#sockets.add(socket);
        socket.on("error", destroy);
        socket.on("close", () => {
          this.#sockets.delete(socket);
          destroy();
        });
      }
      client.pipe(worker).pipe(client);
    });
  }
}

for (const kind of kindsUnderTest.filter(({ engine }) => engine === "vllm")) {
  describe(`Workers lost under load, ${kind.engine} ${kind.version}`, { concurrency: false }, () => {
    const engines: EngineProcess[] = [];
    const doors: Door[] = [];
    let canopy: CanopyProcess;

    before(async () => {
      const started = await Promise.allSettled(
        Array.from({ length: WORKERS }, () => startEngine({ ...kind, modelNames: ["m"] })),
      );
      for (const one of started) if (one.status === "fulfilled") engines.push(one.value);
      for (const one of started) if (one.status === "rejected") throw one.reason;
      for (const { url } of engines) {
        const door = new Door(Number(new URL(url).port));
        await door.open();
        doors.push(door);
      }
      const agent = { model: "m" };
      canopy = await startCanopy(JSON.stringify({
        models: {
          m: {
            model: "m",
            engine: kind.engine,
            workers: doors.map(({ url }) => url),
            tokenizer: tinyModel,
            retries: RETRIES,
          },
        },
        graphs: {
          moa: {
            sampling: { max_tokens: MAX_TOKENS, ignore_eos: true, temperature: 0 },
            layers: [{ agents: [agent, agent, agent], min_responses: 3 }, { agents: [agent] }],
          },
        },
      }));
    });
    after(async () => {
      await canopy?.stop();
      for (const door of doors) door.shut();
      await Promise.all(engines.map((engine) => engine.stop()));
    });

    const storm = (victims: readonly Victim[], kills: number): KillStormOptions => ({
      canopy: canopy.url,
      victims,
      kills,
      concurrency: 4,
      maxTokens: MAX_TOKENS,
    });

    test("connections cut a second apart lose no run and change no text", async (context) => {
      const victims = doors.map((door): Victim => ({
        url: door.url,
        kill: () => door.shut(),
        restart: async () => {
          await new Promise((resolve) => setTimeout(resolve, AWAY_MS));
          await door.open();
        },
      }));
      const figures = await killStorm(storm(victims, CUTS));
      context.diagnostic(`connections cut: ${describeStorm(figures)}`);
      assertUnharmed(figures);
    });

    test("processes killed one after the other lose no run and change no text", async (context) => {
      const victims = doors.map((door, index): Victim => {
        let killed = Promise.resolve();
        return {
          url: door.url,
          kill: () => {
            door.shut();
            killed = engines[index]!.kill();
          },
          restart: async () => {
            await killed;
            const old = engines[index]!;
            await old.stop();
            engines[index] = await startEngine({
              ...kind,
              modelNames: ["m"],
              port: Number(new URL(old.url).port),
            });
            await door.open();
          },
        };
      });
      const figures = await killStorm(storm(victims, PROCESS_KILLS));
      context.diagnostic(`processes killed: ${describeStorm(figures)}`);
      assertUnharmed(figures);
    });
  });
}
