import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { getJson, type Server } from "../kit/client.ts";
import type { Io } from "../kit/io.ts";
import { colorsOf, oneLine, printable } from "../kit/terminal.ts";
import { seconds } from "../kit/units.ts";

const POLL_MS = 250;

/** One agent's answer as it is shown. */
interface Said {
  readonly agent: string;
  readonly heading: string;
  readonly text: string;
}

/**
 * Prints what each agent of a run says, as soon as it has said it, and a banner before the final answer, in
 * MoA-vllm's manner. It looks into `/v1/runs` while the answer is awaited; where that is not allowed, it takes the
 * `canopy.panel` of the answer, and the answer is held back until then.
 */
export class AgentsPrinter {
  readonly #io: Io;
  readonly #server: Server;
  readonly #isOurs: (run: JsonObject) => boolean;
  readonly #model: string;
  readonly #stop = new AbortController();
  readonly #printed = new Set<string>();
  /** Runs that others had begun before; undefined when runs cannot be read. */
  #known: Set<string> | undefined;
  #runId: string | undefined;
  #polling: Promise<void> = Promise.resolve();
  #panel: Said[] = [];

  private constructor(options: { server: Server; io: Io; question: string; model: string }) {
    this.#io = options.io;
    this.#server = options.server;
    this.#model = options.model;
    this.#isOurs = (run) =>
      promptsOf(run).some((prompt) => prompt === undefined || prompt.includes(options.question));
  }

  /** To be called before the question is asked. */
  static async start(options: {
    server: Server;
    io: Io;
    question: string;
    model: string;
  }): Promise<AgentsPrinter> {
    const printer = new AgentsPrinter(options);
    const runs = await printer.#runs();
    if (runs !== undefined) {
      printer.#known = new Set(runs.map((run) => String(run.id)));
      printer.#polling = printer.#poll();
    }
    return printer;
  }

  /** True when the agents' texts come after the answer only. */
  get holdsAnswer(): boolean {
    return this.#known === undefined;
  }

  /** Tells which run it is, once the server has said so. */
  runStarted(id: string | undefined): void {
    this.#runId = id ?? this.#runId;
  }

  /** Prints what has not been printed yet, then the banner. */
  async beforeAnswer(): Promise<void> {
    if (this.holdsAnswer) return;
    await this.end();
    await this.#look();
    this.#banner();
  }

  /** Takes the panel from an answer's `canopy` object. */
  panel(canopy: JsonObject): void {
    const panel = Array.isArray(canopy.panel) ? canopy.panel : [];
    this.#panel = panel.filter(isJsonObject).map((agent) => ({
      agent: String(agent.agent),
      heading: `${agent.agent} (${agent.model})${endOf(agent)}`,
      text: typeof agent.text === "string" ? agent.text : "",
    }));
  }

  /** Prints the panel and the banner, where the answer was held back. */
  printPanel(): void {
    if (this.#panel.length === 0) {
      this.#io.err.write(`The server at ${this.#server.url} does not tell what its agents said.\n`);
    }
    for (const said of this.#panel) this.#print(said);
    this.#banner();
  }

  /** Stops looking. */
  async end(): Promise<void> {
    this.#stop.abort();
    await this.#polling;
  }

  async #poll(): Promise<void> {
    const { clock } = this.#io;
    try {
      while (true) {
        await clock.sleep(POLL_MS, this.#stop.signal);
        await this.#look();
      }
    } catch {
      // Stopped.
    }
  }

  /** Prints the agents that have ended since the last look. */
  async #look(): Promise<void> {
    this.#runId ??= await this.#findRun();
    if (this.#runId === undefined) return;
    const run = await this.#get(`/v1/runs/${encodeURIComponent(this.#runId)}`);
    if (!isJsonObject(run) || !Array.isArray(run.agents)) return;
    // The last agent is the root, whose text is the answer.
    const agents = run.agents.filter(isJsonObject).slice(0, -1);
    const ended = agents.filter((agent) => typeof agent.ended_at_ms === "number");
    ended.sort((a, b) => Number(a.ended_at_ms) - Number(b.ended_at_ms));
    const tokens = tokensByAgent(run);
    for (const agent of ended) {
      const id = String(agent.id);
      const tookMs = Number(agent.ended_at_ms) - Number(agent.started_at_ms ?? agent.ended_at_ms);
      const count = tokens.get(id);
      const facts = `${count === undefined ? "" : `${count} tokens, `}${seconds(tookMs)}`;
      this.#print({
        agent: id,
        heading: `${id} (${agent.model}): ${facts}${endOf(agent)}`,
        text: String(agent.text ?? ""),
      });
    }
  }

  /** The only new run of our model that is about our question; undefined while there is none, or no telling. */
  async #findRun(): Promise<string | undefined> {
    const fresh = (await this.#runs() ?? []).filter((run) =>
      run.graph === this.#model && this.#known?.has(String(run.id)) === false
    );
    const ours: string[] = [];
    for (const { id } of fresh.slice(0, 8)) {
      const run = await this.#get(`/v1/runs/${encodeURIComponent(String(id))}`);
      if (isJsonObject(run) && this.#isOurs(run)) ours.push(String(id));
    }
    return ours.length === 1 ? ours[0] : undefined;
  }

  async #runs(): Promise<JsonObject[] | undefined> {
    const list = await this.#get("/v1/runs?limit=50");
    return isJsonObject(list) && Array.isArray(list.data) ? list.data.filter(isJsonObject) : undefined;
  }

  async #get(path: string): Promise<Json | undefined> {
    try {
      return await getJson(this.#io.transport, this.#server, path, this.#io.stop);
    } catch {
      // A look that fails shows nothing; the answer itself comes another way.
      return undefined;
    }
  }

  #print(said: Said): void {
    if (this.#printed.has(said.agent)) return;
    this.#printed.add(said.agent);
    const colors = colorsOf(this.#io.out, this.#io.env);
    const text = printable(said.text).trim();
    this.#io.out.write(`${colors.cyan(`----- ${said.heading} -----`)}\n${text}\n\n`);
  }

  #banner(): void {
    this.#io.out.write(`${colorsOf(this.#io.out, this.#io.env).bold("===== FINAL ANSWER =====")}\n`);
  }
}

/** An agent's end, where it is not its answer: `, failed: the reason`. */
function endOf({ state, error }: JsonObject): string {
  if (state === "done") return "";
  return `, ${state}${state === "failed" && typeof error === "string" ? `: ${oneLine(error)}` : ""}`;
}

/** The texts that a run's agents were asked; undefined for prompts in token ids, which tell nothing. */
function promptsOf(run: JsonObject): (string | undefined)[] {
  const agents = Array.isArray(run.agents) ? run.agents.filter(isJsonObject) : [];
  return agents.flatMap(({ prompt }) => {
    if (!isJsonObject(prompt)) return [];
    if (typeof prompt.text === "string") return [prompt.text];
    const messages = Array.isArray(prompt.messages) ? prompt.messages.filter(isJsonObject) : undefined;
    return messages === undefined ? [undefined] : messages.map((message) => String(message.content));
  });
}

function tokensByAgent(run: JsonObject): Map<string, number> {
  const agents = isJsonObject(run.usage) && Array.isArray(run.usage.agents) ? run.usage.agents : [];
  return new Map(
    agents.filter(isJsonObject).map((agent) => [String(agent.agent), Number(agent.completion_tokens)]),
  );
}
