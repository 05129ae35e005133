import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { getJson, type Server } from "../kit/client.ts";
import type { Io } from "../kit/io.ts";

/** Time between two looks. */
const POLL_MS = 250;

/** A question's run, as `/v1/runs` shows it while the answer is awaited; it is found by the request's id. */
export class FollowedRun {
  readonly #io: Io;
  readonly #server: Server;
  readonly #stop = new AbortController();
  #polling: Promise<void> = Promise.resolve();
  #id: string | undefined;

  private constructor(server: Server, io: Io) {
    this.#server = server;
    this.#io = io;
    this.requestId = `chat-${io.random.hex(24)}`;
  }

  readonly requestId: string;

  /** Before the question is asked; undefined where runs cannot be read. */
  static async of(server: Server, io: Io): Promise<FollowedRun | undefined> {
    const run = new FollowedRun(server, io);
    const list = await run.#get("/v1/runs?limit=1");
    return isJsonObject(list) && Array.isArray(list.data) ? run : undefined;
  }

  /** Shows the run's record every quarter of a second, until `end`. */
  follow(show: (run: JsonObject) => void): void {
    this.#polling = this.#poll(show);
  }

  /** The run's record as of now; undefined while the server knows no such run. */
  async look(): Promise<JsonObject | undefined> {
    this.#id ??= await this.#find();
    const run = this.#id === undefined
      ? undefined
      : await this.#get(`/v1/runs/${encodeURIComponent(this.#id)}`);
    return isJsonObject(run) && Array.isArray(run.agents) ? run : undefined;
  }

  /** Stops looking. */
  async end(): Promise<void> {
    this.#stop.abort();
    await this.#polling;
  }

  async #poll(show: (run: JsonObject) => void): Promise<void> {
    try {
      while (true) {
        await this.#io.clock.sleep(POLL_MS, this.#stop.signal);
        const run = await this.look();
        if (run !== undefined && !this.#stop.signal.aborted) show(run);
      }
    } catch {
      // Stopped.
    }
  }

  async #find(): Promise<string | undefined> {
    const list = await this.#get(`/v1/runs?limit=1&request_id=${this.requestId}`);
    const [run] = isJsonObject(list) && Array.isArray(list.data) ? list.data : [];
    return isJsonObject(run) && typeof run.id === "string" ? run.id : undefined;
  }

  async #get(path: string): Promise<Json | undefined> {
    try {
      return await getJson(this.#io.transport, this.#server, path, this.#io.stop);
    } catch {
      // A look that fails shows nothing; the answer itself comes another way.
      return undefined;
    }
  }
}
